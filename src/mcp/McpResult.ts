/** What tools of MCP give: a list of content blocks, and their text for a model. */
import type { CallToolResult } from "@modelcontextprotocol/client"
import * as McpSchema from "effect/ai/McpSchema"
import * as Prompt from "effect/ai/Prompt"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as Mcp from "../wire/Mcp.ts"
import type { Ended } from "./SessionCalls.ts"

/** Schema of a block of content; what an MCP server may send beyond is kept. */
export const Block = Schema.StructWithRest(Schema.Struct({ type: Schema.String }), [
  Schema.Record(Schema.String, Schema.Unknown)
])

/** A block of content. */
export type Block = typeof Block.Type

/** Schema of what a tool gives: blocks of content, and a value where the tool has one. */
export const McpResult = Schema.Struct({
  content: Schema.Array(Block),
  structuredContent: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  _meta: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
})

/** What a tool gives. */
export type McpResult = typeof McpResult.Type

/**
 * Takes the content, the value and short `_meta` of a server's result. Images, sounds and files of more than `maxChars`
 * characters (as base64) are replaced by a note.
 */
export const from = ({ _meta, content, structuredContent }: CallToolResult, maxChars: number): McpResult => {
  const meta = metaOf(_meta)
  return {
    content: content.map((block) => bounded({ ...block }, maxChars)),
    ...structuredContent === undefined ? {} : { structuredContent: structuredContent as Record<string, unknown> },
    ...meta === undefined ? {} : { _meta: meta }
  }
}

/** The `_meta` of a tool or result for clients, without long values and keys of this package. */
export const metaOf = (meta: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> | undefined => {
  const entries = Object.entries(meta ?? {}).filter(([key]) => !key.startsWith("effect-tool-executor/"))
  return entries.length === 0 || JSON.stringify(entries).length > maxMetaChars ? undefined : Object.fromEntries(entries)
}

/**
 * Gives the parts for the model: texts, images and sounds as files, links as their address, and the value as JSON if
 * there is no text.
 */
export const toModelOutput = ({ content, structuredContent }: McpResult): ReadonlyArray<Prompt.ToolModelOutputPart> =>
  structuredContent === undefined || content.some(({ type }) => type === "text")
    ? content.map(partOf)
    : [...content.map(partOf), text(JSON.stringify(structuredContent))]

/** Gives the text of a result alone. */
export const textOf = (result: McpResult): string =>
  ToolContent.textOf(ToolContent.fromModelOutput(toModelOutput(result)))

/**
 * Gives the result of a call in the form of MCP. Results of MCP servers pass through unchanged. Other outputs become
 * content, and `structuredContent` if the value is an object. An output that is too large is only its preview. Any
 * other outcome than success is an error with a text for the model; an MCP server's own error content is kept.
 */
export const fromEnded = ({ content, outcome, text }: Ended): McpSchema.CallToolResult => {
  const told = new McpSchema.CallToolResult({
    content: [{ type: "text", text }],
    ...outcome._tag === "Succeeded" ? {} : { isError: true }
  })
  if (outcome._tag !== "Succeeded") {
    return outcome._tag === "Failed" && outcome.modelText === text
      ? Option.getOrElse(decodeResult(Mcp.resultOf(outcome)), () => told)
      : told
  }
  const { output } = outcome
  const isWhole = output._tag === "Inline" && output.modelText === text
  const shown = isWhole ? output : { _tag: "Truncated" as const, originalChars: text.length, modelText: text, content }
  return Option.getOrElse(decodeResult(Mcp.resultOf({ ...outcome, output: shown })), () => told)
}

const decodeResult = Schema.decodeUnknownOption(Schema.toCodecJson(McpSchema.CallToolResult))

const text = (text: string) => Prompt.textPart({ text })

const partOf = (block: Block): Prompt.ToolModelOutputPart => {
  const { name, text: own, type, uri } = block
  if (type === "text" && typeof own === "string") return text(own)
  if (type === "resource_link" && typeof uri === "string") {
    return text(`[${typeof name === "string" ? name : "a resource"}: ${uri}]`)
  }
  const file = fileOf(block)
  if (file !== undefined) return Prompt.filePart(file)
  const resource = type === "resource" && Predicate.isObject(block.resource) ? block.resource : {}
  // unknown kinds of blocks pass through as JSON
  return text("text" in resource && typeof resource.text === "string" ? resource.text : JSON.stringify(block))
}

/** The file that a block is, with its content as base64. */
const fileOf = ({ data, mimeType, resource, type }: Block) => {
  if ((type === "image" || type === "audio") && typeof data === "string") {
    return { mediaType: typeof mimeType === "string" ? mimeType : unknownType, data }
  }
  if (type !== "resource" || !Predicate.isObject(resource)) return
  const known: { readonly blob?: unknown; readonly mimeType?: unknown; readonly uri?: unknown } = resource
  return typeof known.blob !== "string" ? undefined : {
    mediaType: typeof known.mimeType === "string" ? known.mimeType : unknownType,
    data: known.blob,
    ...typeof known.uri === "string" ? { fileName: known.uri } : {}
  }
}

const maxMetaChars = 10_000

const unknownType = "application/octet-stream"

const bounded = (block: Block, maxChars: number): Block => {
  const file = fileOf(block)
  return file === undefined || file.data.length <= maxChars ? block : {
    type: "text",
    text: `[${file.mediaType} of ${file.data.length} characters as base64 was left out: more than ${maxChars}]`
  }
}
