/** Converts AI SDK schemas and outputs to those of `effect/ai`. */
import { asSchema, type FlexibleSchema } from "ai"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { textOf } from "../core/output/OutputPolicy.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"

/**
 * The schema of a tool's arguments. If the SDK's schema validates, it decodes them, with defaults and transformations.
 * Otherwise they are checked against the JSON Schema.
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

/** Validates a value; the failure describes the problems. */
export const validated = (schema: FlexibleSchema, value: unknown): Effect.Effect<unknown, string> =>
  Effect.flatMap(PlainTool.attempt(() => asSchema(schema).validate?.(value)), (result) => {
    if (!isFailure(result)) return Effect.succeed(isSuccess(result) ? result.value : value)
    return Effect.fail(PlainTool.messageOf(result.error))
  })

/** Converts the result of `toModelOutput`. */
export const shown = (output: unknown): ToolContent.ToolContent | undefined => {
  if (!Predicate.isObject(output)) return undefined
  const { reason, type, value } = output
  switch (type) {
    case "text":
    case "error-text":
    case "json":
    case "error-json":
      return [ToolContent.text(textOf(PlainJson.from(value)))]
    case "execution-denied":
      return [ToolContent.text(typeof reason === "string" ? reason : "The call was denied.")]
    case "content":
      return Array.isArray(value) ? ToolContent.fromModelOutput(value.map(part)) : undefined
    default:
      return undefined
  }
}

type Validate = NonNullable<ReturnType<typeof asSchema>["validate"]>

const codec = (jsonSchema: JsonSchema.JsonSchema, validate: Validate): Schema.Codec<unknown, unknown> =>
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

const isSuccess = (result: unknown): result is { readonly value: unknown } =>
  Predicate.isObject(result) && result.success === true

const isFailure = (result: unknown): result is { readonly error: unknown } =>
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

/** Converts a part; a file stored elsewhere is named. */
const part = (it: unknown): Prompt.ToolModelOutputPart => {
  if (!Predicate.isObject(it)) return Prompt.textPart({ text: "" })
  if (it.type === "text") return Prompt.textPart({ text: textOf(PlainJson.from(it.text)) })
  const mediaType = typeof it.mediaType === "string" ? it.mediaType : "file"
  const data = bytesOf(Predicate.isObject(it.data) && "type" in it.data ? it.data : it)
  return data === undefined
    ? Prompt.textPart({ text: `[${mediaType} omitted]` })
    : Prompt.filePart({
      mediaType,
      data,
      ...typeof it.filename === "string" ? { fileName: it.filename } : {}
    })
}

/** The content of a file, or its address. */
const bytesOf = ({ data, url }: { readonly data?: unknown; readonly url?: unknown }) => {
  const content = data ?? url
  if (content instanceof ArrayBuffer) return new Uint8Array(content)
  return typeof content === "string" || content instanceof Uint8Array || content instanceof URL ? content : undefined
}
