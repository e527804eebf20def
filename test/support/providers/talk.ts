/** Talking to a model of the AI SDK by hand: what it said becomes a message of the history, with all that is bound to it. */
import type {
  JSONValue,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  SharedV4ProviderMetadata
} from "@ai-sdk/provider"

export type Message = LanguageModelV4Prompt[number]

export type Assistant = Extract<Message, { readonly role: "assistant" }>

export const user = (text: string): Message => ({ role: "user", content: [{ type: "text", text }] })

/** The tools that it may call, whatever their arguments. */
export const toolsOf = (...names: ReadonlyArray<string>): NonNullable<LanguageModelV4CallOptions["tools"]> =>
  names.map((name) => ({ type: "function", name, inputSchema: { type: "object" } }))

/** The result of each call of a message. */
export const results = (message: Assistant, of: (name: string) => JSONValue = (name) => `${name}: ok`): Message => ({
  role: "tool",
  content: callsOf(message).map(({ toolCallId, toolName }) => ({
    type: "tool-result",
    toolCallId,
    toolName,
    output: { type: "json", value: of(toolName) }
  }))
})

/** The calls of a message that somebody else must run. */
export const callsOf = ({ content }: Assistant) =>
  content.flatMap((part) => part.type === "tool-call" && part.providerExecuted !== true ? [part] : [])

/** All parts of a streamed answer. */
export const stream = async (
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions
): Promise<ReadonlyArray<LanguageModelV4StreamPart>> => {
  const { broken, parts } = await streamUntil(model, options)
  if (broken !== undefined) throw broken
  return parts
}

/** The parts of a streamed answer up to where it broke, and what it broke with. */
export const streamUntil = async (
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions,
  onPart: (part: LanguageModelV4StreamPart) => void = () => undefined
): Promise<{ readonly parts: ReadonlyArray<LanguageModelV4StreamPart>; readonly broken: unknown }> => {
  const parts: Array<LanguageModelV4StreamPart> = []
  try {
    const { stream } = await model.doStream(options)
    for await (const part of stream) {
      parts.push(part)
      onPart(part)
    }
    return { parts, broken: undefined }
  } catch (broken) {
    return { parts, broken }
  }
}

/** What a streamed answer said, as a message. */
export const streamed = (parts: ReadonlyArray<LanguageModelV4StreamPart>): Assistant => {
  const content = parts.flatMap((part): Assistant["content"] => {
    if (part.type === "text-start" || part.type === "reasoning-start") {
      const own = parts.filter((other) => "id" in other && other.id === part.id && kindOf(other) === kindOf(part))
      const text = own.map((other) => "delta" in other ? other.delta : "").join("")
      return [{ type: kindOf(part), text, ...optionsOf(...own) }]
    }
    return partsOf(part as LanguageModelV4Content)
  })
  return { role: "assistant", content }
}

/** What an answer that was not streamed said, as a message. */
export const generated = (content: ReadonlyArray<LanguageModelV4Content>): Assistant => ({
  role: "assistant",
  content: content.flatMap((part) =>
    part.type === "text" || part.type === "reasoning"
      ? [{ type: part.type, text: part.text, ...optionsOf(part) }]
      : partsOf(part)
  )
})

/** Streams, or does not. */
export type Way = "streamed" | "whole"

/** What the model says next. */
export const say = async (
  model: LanguageModelV4,
  prompt: LanguageModelV4Prompt,
  { tools = toolsOf("add", "take"), way = "streamed" }: {
    readonly tools?: NonNullable<LanguageModelV4CallOptions["tools"]>
    readonly way?: Way
  } = {}
): Promise<Assistant> =>
  way === "streamed"
    ? streamed(await stream(model, { prompt, tools }))
    : generated((await model.doGenerate({ prompt, tools })).content)

/** Says a text, answers every call until there are none, then says the next: the history of it all. */
export const converse = (model: LanguageModelV4, ...texts: ReadonlyArray<string>) => conversation(model, texts)

/** As `converse`, from a history on, and not only streaming. */
export const conversation = async (
  model: LanguageModelV4,
  texts: ReadonlyArray<string>,
  { from = [], ...options }: Parameters<typeof say>[2] & { readonly from?: LanguageModelV4Prompt } = {}
): Promise<LanguageModelV4Prompt> => {
  const history = [...from]
  for (const text of texts) {
    history.push(user(text))
    for (let open = true; open;) {
      const said = await say(model, history, options)
      history.push(said)
      open = callsOf(said).length > 0
      if (open) history.push(results(said))
    }
  }
  return history
}

// Utilities

const kindOf = ({ type }: { readonly type: string }) => type.startsWith("text") ? "text" : "reasoning"

/** The metadata of parts, the later over the earlier, as options of what goes back. */
const optionsOf = (...parts: ReadonlyArray<LanguageModelV4StreamPart | LanguageModelV4Content>) => {
  const all: SharedV4ProviderMetadata = {}
  for (const part of parts) {
    const metadata = "providerMetadata" in part ? part.providerMetadata ?? {} : {}
    for (const [provider, values] of Object.entries(metadata)) {
      all[provider] = { ...all[provider], ...values }
    }
  }
  return Object.keys(all).length === 0 ? {} : { providerOptions: all }
}

const partsOf = (part: LanguageModelV4Content): Assistant["content"] => {
  if (part.type === "tool-call") {
    const { input, providerExecuted, toolCallId, toolName } = part
    const ran = providerExecuted === undefined ? {} : { providerExecuted }
    return [{ type: "tool-call", toolCallId, toolName, input: JSON.parse(input), ...ran, ...optionsOf(part) }]
  }
  if (part.type === "tool-result") {
    const { result, toolCallId, toolName } = part
    return [{ type: "tool-result", toolCallId, toolName, output: { type: "json", value: result }, ...optionsOf(part) }]
  }
  return []
}
