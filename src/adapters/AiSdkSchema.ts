/**
 * Schemas and outputs of the AI SDK, as `effect/ai` takes them.
 *
 * @since 0.1.0
 */
import { asSchema, type FlexibleSchema } from "ai"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { textOf } from "../output/OutputPolicy.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"

/**
 * The schema of a tool's arguments. Where the SDK's schema validates, that
 * decodes them, so that its defaults and transformations hold; else they are
 * checked against the JSON Schema.
 *
 * @category conversions
 * @internal
 */
export const parameters = Effect.fnUntraced(function*(
  input: FlexibleSchema | undefined
): Effect.fn.Return<JsonSchema.JsonSchema | Schema.Codec<unknown, unknown>, string> {
  const schema = yield* PlainTool.attempt(() => asSchema(input)) as Effect.Effect<ReturnType<typeof asSchema>, string>
  const jsonSchema = yield* PlainTool.attempt(() => schema.jsonSchema)
  if (!PlainProblems.isArguments(jsonSchema)) {
    return yield* Effect.fail(`its JSON Schema is ${PlainProblems.brief(jsonSchema)}`)
  }
  return schema.validate === undefined ? jsonSchema : codec(jsonSchema, schema.validate)
})

/**
 * Validates a value; the failure says what is wrong with it.
 *
 * @category validation
 * @internal
 */
export const validated = (schema: FlexibleSchema, value: unknown): Effect.Effect<unknown, string> =>
  Effect.flatMap(PlainTool.attempt(() => asSchema(schema).validate?.(value)), (result) => {
    if (!isFailure(result)) return Effect.succeed(isSuccess(result) ? result.value : value)
    return Effect.fail(PlainTool.messageOf(result.error))
  })

/**
 * The text of what `toModelOutput` gave.
 *
 * @category formatting
 * @internal
 */
export const words = (output: unknown): string | undefined => {
  if (!Predicate.isObject(output)) return undefined
  const { reason, type, value } = output
  switch (type) {
    case "text":
    case "error-text":
    case "json":
    case "error-json":
      return textOf(PlainJson.from(value))
    case "execution-denied":
      return typeof reason === "string" ? reason : "The call was denied."
    case "content":
      return Array.isArray(value) ? value.map(part).join("\n") : undefined
    default:
      return undefined
  }
}

// Utilities

type Validate = NonNullable<ReturnType<typeof asSchema>["validate"]>

const codec = (jsonSchema: JsonSchema.JsonSchema, validate: Validate): Schema.Codec<unknown, unknown> =>
  Schema.declare((_: unknown): _ is unknown => true, { toCodecJson: () => undefined }).check(
    // it lets everything pass: it is there for the JSON Schema that the model sees
    Schema.makeFilter(() => true, { toJsonSchema: () => jsonSchema })
  ).pipe(Schema.decodeTo(Schema.Unknown, {
    decode: SchemaGetter.transformEffect((args: unknown) =>
      Effect.flatMap(Effect.orDie(PlainTool.attempt(() => validate(args))), (result) => {
        if (isSuccess(result)) return Effect.succeed(result.value)
        return Effect.fail(issueOf(isFailure(result) ? result.error : undefined))
      })
    ),
    // what was transformed cannot be told apart by its JSON: then the arguments are taken
    encode: SchemaGetter.transformEffect((decoded: unknown) =>
      isJson(decoded) ? Effect.succeed(decoded) : Effect.fail(new SchemaIssue.Forbidden(undefined))
    )
  }))

const isJson = Schema.is(Schema.Json)

const isSuccess = (result: unknown): result is { readonly value: unknown } =>
  Predicate.isObject(result) && result.success === true

const isFailure = (result: unknown): result is { readonly error: unknown } =>
  Predicate.isObject(result) && result.success === false

/** Zod and the standard schemas list what is wrong, each with its path. */
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

/** A file has no text: its kind is named. */
const part = (it: unknown): string => {
  if (!Predicate.isObject(it)) return ""
  if (it.type === "text") return textOf(PlainJson.from(it.text))
  return `[${typeof it.mediaType === "string" ? it.mediaType : "file"} omitted]`
}
