/**
 * Converts answers of AI SDK models (specifications v2 to v4) to parts of `effect/ai`.
 *
 * Nothing here fails, so that a paid request is not lost. What the schemas of `effect/ai` would reject is corrected,
 * carried unchanged (`CarriedPart`) or, if it is of no use, left out.
 */
import type {
  LanguageModelV2Content,
  LanguageModelV2StreamPart,
  LanguageModelV3Content,
  LanguageModelV3StreamPart,
  LanguageModelV4Content,
  LanguageModelV4StreamPart
} from "@ai-sdk/provider"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as CarriedPart from "../wire/CarriedPart.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"
import * as Metadata from "./AiSdkModelMetadata.ts"

/** A stream part of any specification. */
export type StreamPart = LanguageModelV2StreamPart | LanguageModelV3StreamPart | LanguageModelV4StreamPart

/** A content part of any specification. */
export type Content = LanguageModelV2Content | LanguageModelV3Content | LanguageModelV4Content

/** Reads the parts of one answer. */
export class ResponseReader {
  private readonly origin: CarriedPart.Origin
  private readonly tools: ReadonlyMap<string, Tool.Any>
  private carried = 0

  constructor(origin: CarriedPart.Origin, tools: ReadonlyArray<Tool.Any>) {
    this.origin = origin
    this.tools = new Map(tools.map((tool) => [tool.name, tool]))
  }

  /** Converts a stream part, without buffering. */
  stream(part: StreamPart): ReadonlyArray<Response.StreamPartEncoded> {
    switch (part.type) {
      case "text-start":
      case "text-end":
      case "reasoning-start":
      case "reasoning-end":
        return [{ type: part.type, id: part.id, ...Metadata.ofPart(part) }]
      case "text-delta":
      case "reasoning-delta":
        return [{ type: part.type, id: part.id, delta: part.delta, ...Metadata.ofPart(part) }]
      case "tool-input-start":
        return [{
          type: "tool-params-start",
          id: part.id,
          name: part.toolName,
          providerExecuted: part.providerExecuted === true,
          ...Metadata.ofPart(part)
        }]
      case "tool-input-delta":
        return [{ type: "tool-params-delta", id: part.id, delta: part.delta, ...Metadata.ofPart(part) }]
      case "tool-input-end":
        return [{ type: "tool-params-end", id: part.id, ...Metadata.ofPart(part) }]
      case "response-metadata":
        return [Metadata.response(part)]
      case "finish":
        return [Metadata.finish(this.origin.provider, part)]
      case "stream-start":
      case "raw":
      case "error":
      case "ping":
        return []
      default:
        return this.shared(part, (carried) => {
          const id = `carried-${this.carried++}`
          return [{ type: "text-start", id, metadata: carried }, { type: "text-end", id }]
        })
    }
  }

  /** Converts a part of a complete answer. */
  content(part: Content): ReadonlyArray<Response.PartEncoded> {
    switch (part.type) {
      case "text":
      case "reasoning":
        return [{ type: part.type, text: part.text, ...Metadata.ofPart(part) }]
      default:
        return this.shared(part, (carried) => [{ type: "text", text: "", metadata: carried }])
    }
  }

  /** Conversions shared by answers and streams. */
  private shared<A>(
    part: Exclude<Content, { readonly type: "text" | "reasoning" }>,
    carry: (metadata: Response.ProviderMetadata) => ReadonlyArray<A>
  ): ReadonlyArray<A | Shared> {
    const carried = (it: Shape.JsonObject) => carry(CarriedPart.pack(this.origin, it))
    switch (part.type) {
      case "tool-call": {
        const call = toolCall(part)
        return call.providerExecuted === true && !this.takes(call)
          ? carried({ ...part, input: call.params })
          : [call]
      }
      case "tool-result": {
        const result = toolResult(part)
        if (this.takesResult(result)) return [result]
        return result.preliminary === true ? [] : carried({ ...part })
      }
      case "tool-approval-request":
        return [{
          type: "tool-approval-request",
          approvalId: part.approvalId,
          toolCallId: part.toolCallId,
          ...Metadata.ofPart(part)
        }]
      case "source":
        return source(part)
      case "file":
        return file(part)
      case "reasoning-file":
        return carried({ ...part, data: undefined, ...dataOf(part.data) })
      case "custom":
        return carried({ ...part })
      // of a later version
      default:
        return []
    }
  }

  /** Whether `effect/ai` accepts a provider-executed call: arguments unknown to its tool would fail the request. */
  private takes(call: Response.ToolCallPartEncoded): boolean {
    const tool = this.tools.get(call.name)
    return tool !== undefined && Schema.is(Schema.toEncoded(tool.parametersSchema))(call.params)
  }

  private takesResult(result: Response.ToolResultPartEncoded): boolean {
    const tool = this.tools.get(result.name)
    return tool !== undefined &&
      Schema.is(Schema.toEncoded(result.isFailure ? Tool.failureResultSchema(tool) : tool.successSchema))(result.result)
  }
}

type Shared =
  | Response.ToolCallPartEncoded
  | Response.ToolResultPartEncoded
  | Response.ToolApprovalRequestPartEncoded
  | Response.FilePartEncoded
  | Response.UrlSourcePartEncoded
  | Response.DocumentSourcePartEncoded

type Part<Type extends Content["type"]> = Extract<Content, { readonly type: Type }>

const toolCall = (part: Part<"tool-call">): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: part.toolCallId,
  name: part.toolName,
  params: params(part.input),
  providerExecuted: part.providerExecuted === true,
  ...Metadata.ofPart(part)
})

/** Invalid JSON stays text for the gates to refuse, so that the model learns of it. */
const params = (input: unknown): unknown => {
  if (typeof input !== "string") return input ?? {}
  if (input.trim() === "") return {}
  try {
    return JSON.parse(input) as unknown
  } catch {
    return input
  }
}

/** Only providers put results into answers. */
const toolResult = (part: Part<"tool-result">): Response.ToolResultPartEncoded => ({
  type: "tool-result",
  id: part.toolCallId,
  name: part.toolName,
  result: PlainJson.from(part.result),
  isFailure: part.isError === true,
  providerExecuted: true,
  preliminary: "preliminary" in part && part.preliminary === true,
  ...Metadata.ofPart(part)
})

const source = (
  part: Part<"source">
): ReadonlyArray<Response.UrlSourcePartEncoded | Response.DocumentSourcePartEncoded> => {
  const { id, title } = part
  if (part.sourceType === "url") {
    return URL.canParse(part.url)
      ? [{ type: "source", sourceType: "url", id, url: part.url, title: title ?? part.url, ...Metadata.ofPart(part) }]
      : []
  }
  const { filename, mediaType } = part
  return part.sourceType === "document" ?
    [{
      type: "source",
      sourceType: "document",
      id,
      mediaType,
      title: title ?? filename ?? mediaType,
      ...typeof filename === "string" ? { fileName: filename } : {},
      ...Metadata.ofPart(part)
    }] :
    []
}

const file = (part: Part<"file">): ReadonlyArray<Response.FilePartEncoded | Response.UrlSourcePartEncoded> => {
  const mediaType = part.mediaType ?? "application/octet-stream"
  const { data, url } = dataOf(part.data)
  // `effect/ai` has no file by address, so the model reads the address
  if (url !== undefined) {
    return [{ type: "source", sourceType: "url", id: url, url, title: mediaType, ...Metadata.ofPart(part) }]
  }
  return data !== undefined && Result.isSuccess(Base64.decode(data))
    ? [{ type: "file", mediaType, data, ...Metadata.ofPart(part) }]
    : []
}

/** Before v4, data is base64 or bytes. */
const dataOf = (data: unknown): { readonly data?: string; readonly url?: string } => {
  if (typeof data === "string") return { data }
  if (data instanceof Uint8Array) return { data: Base64.encode(data) }
  const url = Shape.own(data, "url")
  if (url instanceof URL) return { url: url.href }
  if (typeof url === "string" && URL.canParse(url)) return { url }
  const inner = Shape.own(data, "data")
  return inner === undefined ? {} : dataOf(inner)
}
