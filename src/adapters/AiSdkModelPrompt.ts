/**
 * Converts prompts of `effect/ai` to specification v4 of the AI SDK; `AiSdkModelVersions` adapts them to older
 * versions.
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolApprovalResponsePart,
  LanguageModelV4ToolCallPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions
} from "@ai-sdk/provider"
import type * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import * as CarriedPart from "../wire/CarriedPart.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/** Where files from tools go: into the result, into a user message after the results, or nowhere, with a note. */
export type ResultFiles = "result" | "message" | "omit"

/** The model a prompt is written for. */
export interface Reader extends CarriedPart.Origin {
  /** Provider tools, whose arguments may be something other than an object. */
  readonly providerTools: ReadonlySet<string>
  readonly resultFiles: ResultFiles
}

/**
 * Writes a prompt.
 *
 * - Provider data of a part (`options`) is sent back unchanged.
 * - Empty messages and texts are left out, because providers reject them.
 * - Results go into one `tool` message directly after the calls, as every protocol requires. Provider-executed results
 * stay with their calls.
 */
export const write = (prompt: Prompt.Prompt, reader: Reader): LanguageModelV4Prompt => {
  const messages: LanguageModelV4Prompt = []
  for (const written of prompt.content.flatMap((message) => messagesOf(message, reader))) {
    const last = messages.at(-1)
    if (written.role === "tool" && last?.role === "tool") {
      messages[messages.length - 1] = { ...last, ...written, content: [...last.content, ...written.content] }
    } else {
      messages.push(written)
    }
  }
  return reader.resultFiles === "result" ? messages : messages.flatMap((it) => withoutFiles(it, reader.resultFiles))
}

type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"]

type ToolContent = Array<LanguageModelV4ToolResultPart | LanguageModelV4ToolApprovalResponsePart>

const messagesOf = (message: Prompt.Message, reader: Reader): ReadonlyArray<LanguageModelV4Message> => {
  const said = providerOptions(message.options)
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content, ...said }]
    case "user": {
      const content = message.content.filter((part) => part.type !== "text" || part.text.trim() !== "")
      return content.length === 0 ? [] : [{
        role: "user",
        content: content.map((part) => part.type === "text" ? textPart(part) : filePart(part)),
        ...said
      }]
    }
    case "tool": {
      const content = message.content.map(answer)
      return content.length === 0 ? [] : [{ role: "tool", content, ...said }]
    }
    case "assistant": {
      const content: AssistantContent = []
      const results: ToolContent = []
      for (const part of message.content) {
        if (part.type === "tool-result" && !part.providerExecuted) results.push(toolResult(part))
        else content.push(...assistantPart(part, reader))
      }
      return [
        ...content.length === 0 ? [] : [{ role: "assistant" as const, content, ...said }],
        ...results.length === 0 ? [] : [{ role: "tool" as const, content: results }]
      ]
    }
  }
}

const assistantPart = (part: Prompt.AssistantMessagePart, reader: Reader): AssistantContent => {
  switch (part.type) {
    case "text": {
      const carried = CarriedPart.unpack(part.options)
      if (carried !== undefined) return CarriedPart.isFrom(carried, reader) ? carriedPart(carried.part) : []
      // an empty text may carry provider data
      return part.text.trim() === "" && Object.keys(part.options).length === 0 ? [] : [textPart(part)]
    }
    case "reasoning":
      return [{ type: "reasoning", text: part.text, ...providerOptions(part.options) }]
    case "file":
      return [filePart(part)]
    case "tool-call":
      return [toolCall(part, reader)]
    case "tool-result":
      return [toolResult(part)]
    // an approval request of the host, not of a provider
    case "tool-approval-request":
      return []
  }
}

const textPart = (part: Prompt.TextPart): LanguageModelV4TextPart => ({
  type: "text",
  text: part.text,
  ...providerOptions(part.options)
})

const filePart = (part: Prompt.FilePart): LanguageModelV4FilePart => {
  const { data, mediaType } = fileData(part)
  return {
    type: "file",
    mediaType,
    data,
    ...part.fileName === undefined ? {} : { filename: part.fileName },
    ...providerOptions(part.options)
  }
}

/** Text is base64, a data URL or an address. */
const fileData = ({ data, mediaType }: Prompt.FilePart): Pick<LanguageModelV4FilePart, "mediaType" | "data"> => {
  if (data instanceof Uint8Array) return { mediaType, data: { type: "data", data } }
  const text = typeof data === "string" ? data : data.href
  const inline = /^data:([^;,]*)[^,]*;base64,/.exec(text)
  if (inline !== null) {
    return { mediaType: mediaType || inline[1] || "", data: { type: "data", data: text.slice(inline[0].length) } }
  }
  const url = /^[a-z][a-z0-9+.-]*:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return { mediaType, data: url === undefined ? { type: "data", data: text } : { type: "url", url } }
}

/** Makes arguments an object: providers reject a conversation with anything else. */
const toolCall = (part: Prompt.ToolCallPart, reader: Reader): LanguageModelV4ToolCallPart => ({
  type: "tool-call",
  toolCallId: part.id,
  toolName: part.name,
  input: part.providerExecuted || reader.providerTools.has(part.name) || Shape.isObject(part.params)
    ? part.params
    : {},
  ...part.providerExecuted ? { providerExecuted: true } : {},
  ...providerOptions(part.options)
})

const answer = (part: Prompt.ToolMessagePart): ToolContent[number] =>
  part.type === "tool-result" ? toolResult(part) : {
    type: "tool-approval-response",
    approvalId: part.approvalId,
    approved: part.approved,
    ...part.reason === undefined ? {} : { reason: part.reason },
    ...providerOptions(part.options)
  }

const toolResult = (part: Prompt.ToolResultPart): LanguageModelV4ToolResultPart => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  output: output(part),
  ...providerOptions(part.options)
})

const output = (
  { isFailure, modelOutput, providerExecuted, result }: Prompt.ToolResultPart
): LanguageModelV4ToolResultOutput => {
  if (modelOutput !== undefined) {
    const texts = modelOutput.flatMap((it) => it.type === "text" ? [it.text] : [])
    // errors cannot have content, so files win over the error mark
    return texts.length === modelOutput.length
      ? { type: isFailure ? "error-text" : "text", value: texts.join("\n") }
      : { type: "content", value: modelOutput.map((it) => it.type === "text" ? textPart(it) : filePart(it)) }
  }
  if (isFailure && Shape.isObject(result) && result.type === "execution-denied") {
    return { type: "execution-denied", ...typeof result.reason === "string" ? { reason: result.reason } : {} }
  }
  // a provider's own result keeps its shape, even as an error
  if (typeof result === "string" && !(isFailure && providerExecuted)) {
    return { type: isFailure ? "error-text" : "text", value: result }
  }
  return { type: isFailure ? "error-json" : "json", value: json(result) }
}

/** A message of results for a protocol without files in results. */
const withoutFiles = (
  message: LanguageModelV4Message,
  resultFiles: ResultFiles
): ReadonlyArray<LanguageModelV4Message> => {
  if (message.role !== "tool") return [message]
  const files: Array<LanguageModelV4TextPart | LanguageModelV4FilePart> = []
  const content = message.content.map((part) => {
    if (part.type !== "tool-result" || part.output.type !== "content") return part
    const texts = part.output.value.map((it) => {
      if (it.type !== "file") return it.type === "text" ? it.text : ""
      const name = `${it.mediaType}${it.filename === undefined ? "" : ` ${it.filename}`}`
      if (resultFiles === "omit") return `[${name} omitted]`
      files.push({ type: "text", text: `[${name} of ${part.toolName}, call ${part.toolCallId}]` }, it)
      return `[${name}: in the next message]`
    })
    return { ...part, output: { type: "text" as const, value: texts.join("\n") } }
  })
  return [{ ...message, content }, ...files.length === 0 ? [] : [{ role: "user" as const, content: files }]]
}

/** A carried part, unchanged. */
const carriedPart = (part: Shape.JsonObject): AssistantContent => {
  const said = providerOptions(part.providerMetadata)
  const [toolCallId, toolName] = [String(part.toolCallId), String(part.toolName)]
  switch (part.type) {
    case "tool-call":
      return [{ type: "tool-call", toolCallId, toolName, input: part.input, providerExecuted: true, ...said }]
    case "tool-result":
      return [{
        type: "tool-result",
        toolCallId,
        toolName,
        output: part.isError === true
          ? { type: "error-json", value: json(part.result) }
          : typeof part.result === "string"
          ? { type: "text", value: part.result }
          : { type: "json", value: json(part.result) },
        ...said
      }]
    case "custom":
      return [{ type: "custom", kind: String(part.kind) as `${string}.${string}`, ...said }]
    case "reasoning-file": {
      const { data, url } = part
      const mediaType = String(part.mediaType)
      if (typeof data === "string") {
        return [{ type: "reasoning-file", mediaType, data: { type: "data", data }, ...said }]
      }
      return typeof url === "string" && URL.canParse(url)
        ? [{ type: "reasoning-file", mediaType, data: { type: "url", url: new URL(url) }, ...said }]
        : []
    }
    default:
      return []
  }
}

const json = (value: unknown) => PlainJson.from(value) as Schema.Json as never

/** Unchanged, because signatures would break. Only objects are provider options. */
const providerOptions = (options: unknown): { readonly providerOptions?: SharedV4ProviderOptions } => {
  if (!Shape.isObject(options)) return {}
  const kept = Object.entries(options).filter(([, value]) => Shape.isObject(value))
  return kept.length === 0 ? {} : { providerOptions: Object.fromEntries(kept) as SharedV4ProviderOptions }
}
