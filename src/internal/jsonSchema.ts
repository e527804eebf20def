/**
 * Arguments of dynamic tools checked against their raw JSON Schema, which
 * `Toolkit` itself does not do. The validator is ajv.
 *
 * Patterns run in linear time where RE2 knows them, nothing is fetched, and what
 * ajv throws is an issue. ajv does not bound its work, so this does not either:
 * references that double again and again, or very many errors and unique items,
 * take as long as they take.
 */
import { Ajv, type Options } from "ajv"
import { Ajv2019 } from "ajv/dist/2019.js"
import { Ajv2020 } from "ajv/dist/2020.js"
import { memoize } from "effect/Function"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import { clip } from "./clip.ts"
import { findingsOf } from "./jsonSchemaFindings.ts"
import { linearPattern, nativePattern } from "./linearPattern.ts"

/** One thing that is wrong with a value, and its path inside it. */
export interface Issue {
  readonly path: string
  readonly message: string
}

/** Gives the issues of a value, none if it fits the schema. */
export type Validator = (value: unknown) => ReadonlyArray<Issue>

/** Compiles a JSON Schema; the failure says what is wrong with it. */
export type Compile = (schema: JsonSchema.JsonSchema) => Result.Result<Validator, string>

/**
 * Compiles a schema of draft 6, 7, 2019-09 or 2020-12, which it is without a
 * `$schema`. Schemas know nothing of each other, and none is fetched.
 */
export const compile: Compile = (schema) =>
  Result.try({
    try: (): Validator => {
      const draft = draftOf(schema)
      refuseWrong(draft, schema)
      // an instance of its own, so that no other schema has its names; what costs is the metaschema, which is shared
      const validate = draft.make({ ...options, meta: false, validateSchema: false }).compile(schema)
      if ("$async" in validate) throw new Error("it says $async, which is no keyword of JSON Schema")
      return (value) =>
        Result.getOrElse(
          Result.try(() => validate(value) ? [] : findingsOf(validate.errors ?? [], schema).map(issueOf)),
          (error) => [{ path: "", message: unchecked(error) }]
        )
    },
    catch: (error) => clip(problemOf(error), 500)
  })

// Utilities

/** Patterns, each known to ajv by its source. */
const regExp = Object.assign((source: string) => {
  const pattern = linearPattern(source) ?? nativePattern(source)
  return { test: (text: string) => pattern.test(text), toString: () => source }
}, { code: "linearPattern" })

const options: Options = {
  allErrors: true,
  // every part of an error that a message may need
  verbose: true,
  strict: false,
  validateFormats: false,
  ownProperties: true,
  // 19.99 is a multiple of 0.01, though not to a computer
  multipleOfPrecision: 8,
  // a schema that many refer to would be copied as often
  inlineRefs: false,
  logger: false,
  code: { regExp }
}

interface Draft {
  readonly uri: string
  readonly make: (options: Options) => Ajv
}

const draft2020: Draft = {
  uri: "https://json-schema.org/draft/2020-12/schema",
  make: (options) => new Ajv2020(options)
}

// draft 7 has all that draft 6 has
const draft7: Draft = { uri: "http://json-schema.org/draft-07/schema", make: (options) => new Ajv(options) }

const drafts: Readonly<Record<string, Draft>> = {
  "draft-06": draft7,
  "draft-07": draft7,
  "draft/2019-09": {
    uri: "https://json-schema.org/draft/2019-09/schema",
    make: (options) => new Ajv2019(options)
  },
  "draft/2020-12": draft2020
}

const draftOf = (schema: JsonSchema.JsonSchema): Draft => {
  const named: unknown = Object(schema).$schema ?? draft2020.uri
  const match = /^https?:\/\/json-schema\.org\/([a-z0-9/-]+)\/schema#?$/.exec(String(named).trim())
  const draft = match !== null && Object.hasOwn(drafts, match[1]!) ? drafts[match[1]!] : undefined
  if (draft !== undefined) return draft
  throw new Error(
    `$schema is ${clip(JSON.stringify(named), 200)}; known are drafts 6, 7, 2019-09 and 2020-12 of json-schema.org`
  )
}

/** The schema of schemas, compiled when the first of its draft is checked. */
const metaschema = memoize(({ make, uri }: Draft) => make(options).getSchema(uri)!)

const refuseWrong = (draft: Draft, schema: unknown): void => {
  const validate = metaschema(draft)
  if (validate(schema)) return
  const [first] = findingsOf(validate.errors ?? [], validate.schema)
  throw new Error(`#${first?.pointer} ${first?.message}`)
}

const problemOf = (error: unknown): string =>
  error instanceof Ajv.MissingRefError
    ? `${
      JSON.stringify(clip(error.missingRef, 200))
    } is not in this schema; nothing is fetched, so write it under $defs`
    : error instanceof RangeError
    ? "it is nested too deeply, or a reference in it leads back to itself"
    : messageOf(error)

// the only thing that ends a stack is a value as deep, or a schema that asks itself without end
const unchecked = (error: unknown): string =>
  error instanceof RangeError
    ? "is nested too deeply to be checked"
    : `cannot be checked: ${clip(messageOf(error), 200)}`

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

const issueOf = ({ message, pointer }: { readonly pointer: string; readonly message: string }): Issue => ({
  path: pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(".")
    .slice(0, 200),
  message
})
