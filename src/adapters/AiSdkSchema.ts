/** Converts AI SDK schemas and outputs to those of `effect/ai`. */
import { asSchema, type FlexibleSchema } from "ai"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import { textOf } from "../core/output/OutputPolicy.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"
import * as ValidatedSchema from "./ValidatedSchema.ts"

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
  return schema.validate === undefined ? jsonSchema : ValidatedSchema.codec(jsonSchema, schema.validate)
})

/** Validates a value; the failure describes the problems. */
export const validated = (schema: FlexibleSchema, value: unknown): Effect.Effect<unknown, string> =>
  Effect.flatMap(PlainTool.attempt(() => asSchema(schema).validate?.(value)), (result) => {
    if (!ValidatedSchema.isFailure(result)) {
      return Effect.succeed(ValidatedSchema.isSuccess(result) ? result.value : value)
    }
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
