/**
 * Arguments of dynamic tools checked against their raw JSON Schema, which
 * `Toolkit` itself does not do.
 */
import { Ajv, type Options } from "ajv"
import { Ajv2020 } from "ajv/dist/2020.js"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import { clip } from "./clip.ts"

const options: Options = { allErrors: true, strict: false, validateFormats: false, addUsedSchema: false, logger: false }

/** One thing that is wrong with a value, and its path inside it. */
export interface Issue {
  readonly path: string
  readonly message: string
}

/** Gives the issues of a value, none if it fits the schema. */
export type Validator = (value: unknown) => ReadonlyArray<Issue>

const maxIssues = 10

const pathOf = (pointer: string): string =>
  pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(".")

/** Compiles a JSON Schema; the failure says what is wrong with it. */
export type Compile = (schema: JsonSchema.JsonSchema) => Result.Result<Validator, string>

/**
 * Makes a compiler of JSON Schemas, draft 2020-12 unless one names draft 7. To
 * make one takes longer than to compile twenty schemas, so it is made once for
 * all that are compiled together.
 */
export const makeCompile = (): Compile => {
  const ajvs: { draft7?: Ajv; draft2020?: Ajv2020 } = {}
  return (schema) =>
    typeof schema.$schema === "string" && schema.$schema.includes("draft-07")
      ? compileWith(ajvs.draft7 ??= new Ajv(options), schema)
      : compileWith(ajvs.draft2020 ??= new Ajv2020(options), schema)
}

const compileWith = (ajv: Ajv | Ajv2020, schema: JsonSchema.JsonSchema): Result.Result<Validator, string> =>
  Result.try({
    try: (): Validator => {
      const validate = ajv.compile(schema)
      return (value) => {
        if (validate(value)) return []
        const errors = validate.errors ?? []
        return errors.slice(0, maxIssues).map((error) => ({
          path: pathOf(error.instancePath).slice(0, 200),
          message: (error.message ?? error.keyword) +
            (error.keyword === "enum" ? `: ${JSON.stringify(error.params.allowedValues).slice(0, 300)}` : "") +
            (error.keyword === "additionalProperties"
              ? `: "${clip(String(error.params.additionalProperty), 100)}"`
              : "")
        }))
      }
    },
    catch: (error) => error instanceof Error ? error.message : String(error)
  })
