/**
 * What a model reads of a compacted conversation, as pure functions.
 *
 * A compaction is a message of the history: its text stands for the older turns, and its options say how many messages
 * before it are kept word for word. Nothing is removed from the history, so a conversation that is loaded again reads
 * the same, without a second summary.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as CarriedPart from "../wire/CarriedPart.ts"
import * as Shape from "../wire/Shape.ts"
import { key, Origin, recorded } from "./Conversation.ts"

type Message = Prompt.Message

/** What a compaction did. */
export interface Compacted {
  /** How many messages directly before it are kept. */
  readonly keeps: number
  readonly text: string
  /** Which model wrote the summary, and what it used; absent: the older turns were dropped. */
  readonly origin: Origin | undefined
}

/** The message that records a compaction. */
export const record = ({ keeps, origin, text }: Compacted): Prompt.UserMessage =>
  Prompt.userMessage({
    content: [Prompt.textPart({ text })],
    options: { [key]: { compacted: { keeps }, ...(origin === undefined ? {} : recorded(origin)) } }
  })

/** Whether a message records a compaction instead of something said. */
export const isRecord = (message: Message): boolean => keepsOf(message) !== undefined

/** The last message that is not such a record. */
export const last = (messages: ReadonlyArray<Message>): Message | undefined => messages.findLast((it) => !isRecord(it))

/** The origins of all summaries, or of those made for one process. */
export const originsIn = (messages: ReadonlyArray<Message>, processes?: ReadonlySet<string>): ReadonlyArray<Origin> =>
  messages.flatMap(({ options, role }) => {
    const found = role === "user" && isSummary(options[key]) ? options[key] : undefined
    return found === undefined || processes?.has(found.run?.process ?? "") === false ? [] : [found]
  })

/** What a model reads of a history: all of it, or what the last compaction left and everything since. */
export const view = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const at = messages.findLastIndex(isRecord)
  return at === -1 ? messages : viewFrom(messages, Math.max(0, at - keepsOf(messages[at]!)!), messages[at]!)
}

/** The same for a compaction that keeps everything from an index on. */
export const viewFrom = (
  messages: ReadonlyArray<Message>,
  from: number,
  compacted: Message
): ReadonlyArray<Message> => {
  const left = messages.slice(0, from).filter((it) => !isRecord(it))
  const said = left.filter(isSaid)
  const [first, last] = [said[0], said.at(-1)]
  return [
    ...left.filter((it) => it.role === "system"),
    ...first === undefined ? [] : [first],
    ...compacted.role === "user" ? [Prompt.userMessage({ content: compacted.content })] : [],
    // the request it works on
    ...last === undefined || last === first ? [] : [last],
    ...messages.slice(from).filter((it) => !isRecord(it))
  ]
}

/** What compaction from an index on leaves out of what the model reads now. */
export const leftOut = (messages: ReadonlyArray<Message>, from: number): ReadonlyArray<Message> => {
  const kept = new Set(messages.slice(from))
  return view(messages).filter((it) => it.role !== "system" && !kept.has(it))
}

/**
 * Where a history can be cut: the indexes where a turn starts, oldest first. No call is on one side and its answer on
 * the other. The last turn of the model is never cut off, since its calls may be open and their answers unread.
 */
export const cutsIn = (messages: ReadonlyArray<Message>): ReadonlyArray<number> => {
  const at = messages.findLastIndex(isRecord)
  const least = at === -1 ? 0 : Math.max(0, at - keepsOf(messages[at]!)!)
  const spans = provided(messages)
  const cuts: Array<number> = []
  // from the end: whether a model's message and an answer of its calls follow
  let isAnswered = false
  let hasModel = false
  for (let index = messages.length - 1; index > least; index--) {
    const { role } = messages[index]!
    if (role === "tool") {
      isAnswered = true
      continue
    }
    if (role === "assistant") [hasModel, isAnswered] = [true, false]
    const before = messages[index - 1]!.role
    const isStart = role === "assistant" ? before === "tool" : before === "assistant" || before === "tool"
    if (isStart && hasModel && !isAnswered && !spans.some(([call, result]) => call < index && index <= result)) {
      cuts.unshift(index)
    }
  }
  return cuts
}

/** A rough count of a message's tokens: four bytes of text each, and a fixed number for a file. */
export const tokensOf = (message: Message): number => {
  let count = counts.get(message)
  if (count === undefined) {
    const parts = typeof message.content === "string" ? [message.content] : message.content
    count = 4 + parts.reduce((sum: number, part) => sum + partTokens(part), 0)
    counts.set(message, count)
  }
  return count
}

export const tokensIn = (messages: ReadonlyArray<Message>): number =>
  messages.reduce((sum, message) => sum + tokensOf(message), 0)

/** A rough count of a text's tokens. */
export const textTokens = (text: string): number => Math.ceil(bytesOf(text) / 4)

/** Writes messages as a text for a model, in at most so many tokens: long texts lose their middle, then the oldest go. */
export const textOf = (messages: ReadonlyArray<Message>, tokens: number): string => {
  for (const length of [8_000, 2_000, 500]) {
    const text = messages.flatMap((it) => linesOf(it, length)).join("\n\n")
    if (textTokens(text) <= tokens) return Shape.wellFormed(text)
    if (length === 500) return Shape.wellFormed(text.slice(-tokens))
  }
  return ""
}

// Utilities

const counts = new WeakMap<Message, number>()

const Keeps = Schema.Struct({ compacted: Schema.Struct({ keeps: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)) }) })
const hasKeeps = Schema.is(Keeps)
const isSummary = Schema.is(Schema.Struct({ ...Keeps.fields, ...Origin.fields }))

const keepsOf = ({ options, role }: Message): number | undefined => {
  const found = role === "user" && Object.hasOwn(options, key) ? options[key] : undefined
  // a stored history may hold anything
  return hasKeeps(found) ? found.compacted.keeps : undefined
}

/** Whether a user said something in a message. */
const isSaid = (message: Message): boolean =>
  message.role === "user" && message.content.some((it) => it.type !== "text" || it.text.trim() !== "")

/** From where to where a provider worked on its own calls, by the indexes of the messages. */
const provided = (messages: ReadonlyArray<Message>): ReadonlyArray<readonly [number, number]> => {
  const called = new Map<string, number>()
  const spans: Array<readonly [number, number]> = []
  for (const [index, message] of messages.entries()) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      const provided = CarriedPart.providedOf(part)
      if (provided?.type === "tool-call") called.set(provided.id, index)
      const call = provided?.type === "tool-result" ? called.get(provided.id) : undefined
      if (call !== undefined && call < index) spans.push([call, index])
    }
  }
  return spans
}

type Part = Exclude<Message["content"], string>[number] | string

/** Images cost about this much; a file of text costs what its text does. */
const fileTokens = 1_500

const partTokens = (part: Part): number => {
  if (typeof part === "string") return textTokens(part)
  switch (part.type) {
    case "text":
    case "reasoning":
      return textTokens(part.text)
    case "file":
      return typeof part.data === "string" && part.mediaType.startsWith("text/") ? textTokens(part.data) : fileTokens
    case "tool-call":
      return textTokens(part.name) + textTokens(jsonOf(part.params)) + 8
    case "tool-result":
      return textTokens(jsonOf(part.result)) + 8
    default:
      return 8
  }
}

const linesOf = (message: Message, length: number): ReadonlyArray<string> => {
  if (typeof message.content === "string") return [`[system]\n${shortened(message.content, length)}`]
  return message.content.flatMap((part): ReadonlyArray<string> => {
    switch (part.type) {
      case "text":
        return part.text.trim() === "" ? [] : [`[${message.role}]\n${shortened(part.text, length)}`]
      case "tool-call":
        return [`[call of ${part.name}]\n${shortened(jsonOf(part.params), length)}`]
      case "tool-result":
        return [`[${part.isFailure ? "failure" : "result"} of ${part.name}]\n${shortened(jsonOf(part.result), length)}`]
      case "file":
        return [`[${message.role}]\n(a file of type ${part.mediaType})`]
      default:
        return []
    }
  })
}

const shortened = (text: string, length: number): string => {
  if (text.length <= length) return text
  const half = Math.floor(length / 2)
  return `${text.slice(0, half)}\n(${text.length - 2 * half} characters left out)\n${text.slice(-half)}`
}

const jsonOf = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    // a history made in code may hold anything
    return String(value)
  }
}

/** UTF-8 bytes. */
const bytesOf = (text: string): number => {
  let bytes = text.length
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code > 0x7f) bytes += code > 0x7ff && !(code >= 0xd800 && code < 0xe000) ? 2 : 1
  }
  return bytes
}
