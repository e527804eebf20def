/**
 * Adapts call options to specifications v2 and v3 of the AI SDK, which differ in file data, files in results and some
 * names.
 */
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4ToolResultOutput,
  SharedV4FileData
} from "@ai-sdk/provider"
import * as Base64 from "effect/encoding/Base64"

/** Supported specification versions. */
export type Version = "v2" | "v3" | "v4"

/** Writes call options in the model's version. */
export const write = (version: Version, options: LanguageModelV4CallOptions): object => {
  if (version === "v4") return options
  // only v4 has `reasoning`; older packages have their own options
  const { reasoning: _, ...older } = options
  return {
    ...older,
    prompt: options.prompt.map((message) => olderMessage(version, message)).filter(({ content }) => content.length > 0),
    ...options.tools === undefined || version === "v3" ? {} : {
      tools: options.tools.map((tool) => tool.type === "provider" ? { ...tool, type: "provider-defined" } : tool)
    }
  }
}

type Older = Exclude<Version, "v4">

const olderMessage = (version: Older, message: LanguageModelV4Message): { readonly content: ArrayLike<unknown> } =>
  message.role === "system" ? message : {
    ...message,
    content: message.content.flatMap((part): ReadonlyArray<object> => {
      switch (part.type) {
        case "file":
          return [{ ...part, data: olderData(part.data) }]
        case "tool-result":
          return [{ ...part, output: olderOutput(version, part.output) }]
        case "custom":
        case "reasoning-file":
          return []
        case "tool-approval-response":
          return version === "v2" ? [] : [part]
        default:
          return [part]
      }
    })
  }

const olderData = (data: SharedV4FileData): unknown =>
  data.type === "data" ? data.data : data.type === "url" ? data.url : data

const olderOutput = (version: Older, output: LanguageModelV4ToolResultOutput): object => {
  if (output.type === "execution-denied" && version === "v2") {
    return { type: "error-text", value: output.reason ?? "The call was denied." }
  }
  if (output.type !== "content") return output
  return {
    type: "content",
    value: output.value.map((part): object => {
      if (part.type !== "file") return part
      const { data, filename, mediaType, ...rest } = part
      const isImage = mediaType.startsWith("image/")
      if (data.type === "url") {
        const url = data.url.href
        // v2 has no address in a result, so the model reads it as text
        if (version === "v2") return { type: "text", text: url }
        return { ...rest, type: isImage ? "image-url" : "file-url", url }
      }
      const content = data.type === "data" ? base64(data.data) : ""
      if (version === "v2") return { type: "media", mediaType, data: content }
      return isImage
        ? { ...rest, type: "image-data", mediaType, data: content }
        : { ...rest, type: "file-data", mediaType, data: content, ...filename === undefined ? {} : { filename } }
    })
  }
}

const base64 = (data: string | Uint8Array): string => typeof data === "string" ? data : Base64.encode(data)
