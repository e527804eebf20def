/** Schemas of arguments that code of the host validates, such as those of Zod and other Standard Schemas. */
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as PlainTool from "./PlainTool.ts"

/** The schema of a value that implements Standard Schema, or the value itself as JSON Schema. */
export const of = (schema: unknown): JsonSchema.JsonSchema | Schema.Codec<unknown, unknown> => {
  const standard = Predicate.hasProperty(schema, "~standard") ? schema["~standard"] : undefined
  if (!Predicate.hasProperty(standard, "validate") || typeof standard.validate !== "function") {
    return schema as JsonSchema.JsonSchema
  }
  const validate = standard.validate as (args: unknown) => unknown
  return codec(jsonSchemaOf(standard), async (args) => {
    const result = await validate(args)
    return Predicate.hasProperty(result, "issues") && result.issues !== undefined
      ? { success: false, error: result }
      : { success: true, value: Predicate.hasProperty(result, "value") ? result.value : undefined }
  })
}

/** The JSON Schema that newer Standard Schemas have; any object for others. */
const jsonSchemaOf = (standard: object): JsonSchema.JsonSchema => {
  const converter = Predicate.hasProperty(standard, "jsonSchema") ? standard.jsonSchema : undefined
  if (!Predicate.hasProperty(converter, "input") || typeof converter.input !== "function") return { type: "object" }
  try {
    return converter.input({ target: "draft-2020-12" }) as JsonSchema.JsonSchema
  } catch {
    return { type: "object" }
  }
}

/** Validates arguments: `{ success: true, value }`, or `{ success: false, error }`. */
export type Validate = (args: unknown) => unknown

/** Decodes arguments with a validation of the host; a model sees the JSON Schema. */
export const codec = (jsonSchema: JsonSchema.JsonSchema, validate: Validate): Schema.Codec<unknown, unknown> =>
  Schema.declare((_: unknown): _ is unknown => true, { toCodecJson: () => undefined }).check(
    // accepts everything; present for the model's JSON Schema
    Schema.makeFilter(() => true, { toJsonSchema: () => jsonSchema })
  ).pipe(Schema.decodeTo(Schema.Unknown, {
    decode: SchemaGetter.transformEffect((args: unknown) =>
      Effect.flatMap(Effect.orDie(PlainTool.attempt(() => validate(args))), (result) => {
        if (isSuccess(result)) return Effect.succeed(result.value)
        return Effect.fail(issueOf(isFailure(result) ? result.error : undefined))
      })
    ),
    // transformed values have no unique JSON, so the arguments are used
    encode: SchemaGetter.transformEffect((decoded: unknown) =>
      isJson(decoded) ? Effect.succeed(decoded) : Effect.fail(new SchemaIssue.Forbidden(undefined))
    )
  }))

const isJson = Schema.is(Schema.Json)

export const isSuccess = (result: unknown): result is { readonly value: unknown } =>
  Predicate.isObject(result) && result.success === true

export const isFailure = (result: unknown): result is { readonly error: unknown } =>
  Predicate.isObject(result) && result.success === false

/** Zod and Standard Schema list problems with paths. */
const issueOf = (error: unknown): SchemaIssue.Issue => {
  const issues = [error, Predicate.hasProperty(error, "cause") ? error.cause : undefined].flatMap(listOf)
  const [first, ...more] = issues.map(({ message, path }): SchemaIssue.Issue =>
    new SchemaIssue.Pointer(path, new SchemaIssue.InvalidValue({ message }))
  )
  return first === undefined
    ? new SchemaIssue.InvalidValue({ message: PlainTool.messageOf(error) })
    : new SchemaIssue.Composite(Schema.Unknown.ast, [first, ...more])
}

const listOf = (
  error: unknown
): ReadonlyArray<{ readonly message: string; readonly path: ReadonlyArray<PropertyKey> }> => {
  const issues = Predicate.hasProperty(error, "issues") ? error.issues : error
  return !Array.isArray(issues) ?
    [] :
    issues.flatMap((issue: unknown) =>
      Predicate.hasProperty(issue, "message") && typeof issue.message === "string"
        ? [{ message: issue.message, path: pathOf(Predicate.hasProperty(issue, "path") ? issue.path : undefined) }]
        : []
    )
}

const pathOf = (path: unknown): ReadonlyArray<PropertyKey> =>
  Array.isArray(path)
    ? path.map((part: unknown) => {
      const key = Predicate.hasProperty(part, "key") ? part.key : part
      return typeof key === "number" ? key : String(key)
    })
    : []
