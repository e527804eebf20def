/** The parameters of a tool: how they are decoded, and what makes two of them equal. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { canonicalJson } from "./canonicalJson.ts"
import { clip } from "./clip.ts"
import { exitOf } from "./exitOf.ts"
import { compile, type Issue } from "./json-schema/index.ts"
import { issuesOf } from "./schemaIssues.ts"

/** Whether somebody else wrote the JSON Schema of a tool: the cost of its checks is limited whatever the value. */
export const IsForeign = Context.Reference<boolean>("effect-tool-executor/internal/toolSchemas/IsForeign", {
  defaultValue: () => false
})

/** Parameters of one tool, compiled. */
export interface Schemas {
  /** Decodes untrusted parameters; fails with every issue found, at most ten. */
  readonly decode: (params: unknown) => Effect.Effect<unknown, ReadonlyArray<Issue>>
  /** One text for equal parameters, taken from their encoded form; from the arguments where they cannot be encoded. */
  readonly canonical: (decoded: unknown, args: unknown) => string
}

/** Of a raw JSON Schema: parameters stay unchanged. */
export const fromJsonSchema = (
  schema: JsonSchema.JsonSchema,
  whose: "own" | "foreign"
): Result.Result<Schemas, string> =>
  Result.map(compile(schema, whose), (validate) => ({
    decode: (params) => {
      const issues = validate(params)
      return issues.length === 0 ? Effect.succeed(params) : Effect.fail(issues)
    },
    canonical: canonicalJson
  }))

const toIssues = (error: Schema.SchemaError): ReadonlyArray<Issue> =>
  issuesOf(error).slice(0, 10).map(({ message, path }) => ({
    path: path.map(String).join(".").slice(0, 200),
    message: clip(message, 500)
  }))

/** What was encoded; an encoder that fails, or has to wait, leaves the arguments. */
const encodedOr = (args: unknown, encode: () => Result.Result<unknown, unknown>): unknown => {
  try {
    return Result.getOrElse(encode(), () => args)
  } catch {
    return args
  }
}

/** What becomes of properties that a schema does not declare. */
export interface Excess {
  readonly onExcessProperty: "ignore" | "error"
}

/** The JSON Schema of a `Schema`, as one document. */
export const toJsonSchema = (schema: Schema.Top, excess: Excess): JsonSchema.JsonSchema => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, excess)
  return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
}

/** Whether every value of a schema is JSON whose objects have their keys in one order. */
const isOrdered = (ast: SchemaAST.AST): boolean => {
  switch (ast._tag) {
    case "String":
    case "Number":
    case "Boolean":
    case "Null":
    case "Literal":
    case "TemplateLiteral":
      return true
    case "Arrays":
      return [...ast.elements, ...ast.rest].every(isOrdered)
    case "Objects":
      return ast.indexSignatures.length === 0 && ast.propertySignatures.length > 0 &&
        ast.propertySignatures.every((it) => typeof it.name === "string" && isOrdered(it.type))
    default:
      return false
  }
}

/** The same as `canonicalJson`, of a value that is in order but for numbers that JSON does not have. */
const orderedJson = (value: unknown): string => {
  const text = JSON.stringify(value)
  return text.includes("null") ? canonicalJson(value) : text
}

/** Of a `Schema`: parameters are decoded. */
export const fromCodec = (schema: Schema.Codec<unknown, unknown>, excess: Excess): Schemas => {
  const decodeAll = Schema.decodeUnknownEffect(schema, { errors: "all", ...excess })
  // several times cheaper without options; the other one reports the problems
  const decode = excess.onExcessProperty === "ignore" ? Schema.decodeUnknownEffect(schema) : decodeAll
  // without transformations the decoded value is its own encoding
  const isPlain = SchemaAST.toEncoded(schema.ast) === schema.ast
  // a decoded struct has its keys in the order of its schema
  const hasOrder = isPlain && isOrdered(schema.ast)
  const encode = Schema.encodeUnknownResult(schema)
  return {
    // a schema without services and asynchronous steps decodes synchronously
    decode: (params) => {
      const exit = exitOf(decode(params))
      return exit?._tag === "Success"
        ? exit as Exit.Success<unknown>
        : Effect.mapErrorEager(decodeAll(params), toIssues)
    },
    canonical: (value, args) =>
      hasOrder ? orderedJson(value) : canonicalJson(isPlain ? value : encodedOr(args, () => encode(value)))
  }
}
