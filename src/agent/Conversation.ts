/**
 * What a model is sent of a conversation, as pure functions.
 *
 * A history that is kept never changes. What goes to a model is made of it each time:
 * sound, so that any provider takes it (every call has one answer right behind it, no
 * answer stands without its call), and fit for that model: what another model has
 * bound to itself, such as reasoning with its signature, is left out, and what is its own
 * goes back as it came.
 *
 * @since 0.1.0
 */
import * as Prompt from "effect/ai/Prompt"
import * as FileChange from "../FileChange.ts"

/**
 * Who made a message, and in which process its calls were handed over.
 *
 * @category models
 * @since 0.1.0
 */
export interface Origin {
  readonly provider: string
  readonly model: string
  readonly batch: string
  readonly process: string
}

/**
 * A model, as histories name it.
 *
 * @category models
 * @since 0.1.0
 */
export type ModelId = Pick<Origin, "provider" | "model">

/** The name under which parts carry their origin, among the options of providers. */
const key = "effect-tool-executor"

/**
 * Notes in each part of a message who made it.
 *
 * @category conversions
 * @since 0.1.0
 */
export const mark = (message: Prompt.AssistantMessage, origin: Origin): Prompt.AssistantMessage => ({
  ...message,
  content: message.content.map((part) => withOptions(part, { ...part.options, [key]: { ...origin } }))
})

/**
 * Tells who made a message; `undefined` where nobody noted it.
 *
 * @category getters
 * @since 0.1.0
 */
export const originOf = (message: Prompt.AssistantMessage): Origin | undefined => {
  for (const part of message.content) {
    const origin = partOrigin(part)
    if (origin !== undefined) return origin
  }
  return undefined
}

/**
 * The calls of the last message of a model that have no answer yet.
 *
 * @category models
 * @since 0.1.0
 */
export interface Open {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly origin: Origin | undefined
}

/**
 * Finds the calls of the last message of a model that have no answer.
 *
 * @category getters
 * @since 0.1.0
 */
export const open = (messages: ReadonlyArray<Prompt.Message>): Open => {
  const at = messages.findLastIndex((it) => it.role === "assistant")
  const last = messages[at]
  if (last?.role !== "assistant") return { calls: [], origin: undefined }
  const answered = new Set(
    messages.slice(at + 1).flatMap((it) => it.role === "tool" ? it.content : []).map((it) => "id" in it ? it.id : "")
  )
  return { calls: callsOf(last).filter((it) => !answered.has(it.id)), origin: originOf(last) }
}

/**
 * The calls of a message that a provider has not executed itself.
 *
 * @category getters
 * @since 0.1.0
 */
export const callsOf = ({ content }: Prompt.AssistantMessage): ReadonlyArray<Prompt.ToolCallPart> =>
  content.filter((it) => it.type === "tool-call" && !it.providerExecuted) as ReadonlyArray<Prompt.ToolCallPart>

/**
 * Gives calls ids that no other call of the conversation has: some servers give all
 * of them the same, or none.
 *
 * @category conversions
 * @since 0.1.0
 */
export const withOwnIds = (
  message: Prompt.AssistantMessage,
  taken: Set<string>,
  makeId: () => string
): Prompt.AssistantMessage => ({
  ...message,
  content: message.content.map((part) => {
    if (part.type !== "tool-call" || part.providerExecuted) return part
    const id = part.id === "" || taken.has(part.id) ? makeId() : part.id
    taken.add(id)
    return id === part.id ? part : { ...part, id }
  })
})

/**
 * What is left of a message whose model did not get to its end: what it said. A call
 * that was under way was never made, and reasoning without its end nobody takes back.
 *
 * @category conversions
 * @since 0.1.0
 */
export const said = (message: Prompt.AssistantMessage | undefined): Prompt.AssistantMessage | undefined => {
  const content = (message?.content ?? []).flatMap((it) =>
    it.type === "text" && it.text.trim() !== "" ? [Prompt.textPart({ text: it.text })] : []
  )
  return content.length === 0 ? undefined : Prompt.assistantMessage({ content })
}

/**
 * Answers calls with a text alone: those that have no outcome.
 *
 * @category constructors
 * @since 0.1.0
 */
export const answerAll = (
  calls: ReadonlyArray<Pick<Prompt.ToolCallPart, "id" | "name">>,
  text: string = unanswered
): Prompt.ToolMessage => Prompt.toolMessage({ content: calls.map((it) => noResult(it, text)) })

/**
 * Gives what a model is sent of a history.
 *
 * @category conversions
 * @since 0.1.0
 */
export const forModel = (messages: ReadonlyArray<Prompt.Message>, model: ModelId): Prompt.Prompt => {
  const sent: Array<Prompt.Message> = []
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") continue
    const fit = message.role === "assistant" ? assistant(message, model) : message
    if (fit.role !== "system" && fit.content.length === 0) continue
    sent.push(fit)
    if (message.role !== "assistant") continue
    const calls = once(callsOf(message))
    if (calls.length === 0) continue
    const answers = answersBehind(messages, index)
    const ids = idsFor(message, model)
    sent.push(Prompt.toolMessage({
      content: calls.map((call) => {
        const answer = answers.get(call.id)
        return { ...answer ?? noResult(call, unanswered), id: ids(call.id), name: call.name }
      })
    }))
  }
  return Prompt.fromMessages(sent)
}

// Utilities

/** What a model is told of a call whose answer is nowhere. */
const unanswered =
  "There is no result of this call: it was interrupted. It may or may not have happened. Look before you repeat it."

const noResult = ({ id, name }: Pick<Prompt.ToolCallPart, "id" | "name">, result: string): Prompt.ToolResultPart =>
  Prompt.toolResultPart({ id, name, isFailure: true, result, providerExecuted: false })

type Part = Prompt.AssistantMessagePart

const withOptions = (part: Part, options: Prompt.ProviderOptions): Part => ({ ...part, options }) as Part

const partOrigin = ({ options }: Part): Origin | undefined => {
  const found = Object.hasOwn(options, key) ? options[key] : undefined
  return typeof found === "object" && found !== null && "provider" in found && "model" in found
    ? found as unknown as Origin
    : undefined
}

/** The answers between a message of a model and the next one; the first of each call counts. */
const answersBehind = (messages: ReadonlyArray<Prompt.Message>, at: number): Map<string, Prompt.ToolResultPart> => {
  const found = new Map<string, Prompt.ToolResultPart>()
  for (let index = at + 1; index < messages.length; index++) {
    const message = messages[index]!
    if (message.role === "assistant") break
    if (message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type === "tool-result" && !found.has(part.id)) found.set(part.id, part)
    }
  }
  return found
}

/** Of calls of one id the first: an answer could not say which of them it is to. */
const once = (calls: ReadonlyArray<Prompt.ToolCallPart>): ReadonlyArray<Prompt.ToolCallPart> => {
  const ids = new Set<string>()
  return calls.filter(({ id }) => !ids.has(id) && ids.add(id))
}

/** A message of a model as this model takes it. */
const assistant = (message: Prompt.AssistantMessage, model: ModelId): Prompt.AssistantMessage => {
  const ids = idsFor(message, model)
  const seen = new Set<string>()
  const content = message.content.flatMap((part): ReadonlyArray<Part> => {
    if (part.type === "tool-approval-request") return []
    if (part.type === "tool-call" && !part.providerExecuted) {
      if (seen.has(part.id)) return []
      seen.add(part.id)
    }
    const origin = partOrigin(part)
    const options = Object.fromEntries(Object.entries(part.options).filter(([name]) => name !== key))
    const isBound = Object.keys(options).length > 0
    // providers refuse empty texts, but for those that stand for something of their own
    if (part.type === "text" && part.text.trim() === "" && !isBound) return []
    if (origin === undefined || isSame(origin, model)) return [withOptions(part, options)]
    switch (part.type) {
      case "reasoning":
        return []
      case "text":
        return part.text.trim() === "" ? [] : [withOptions(part, {})]
      case "tool-call":
        return part.providerExecuted ? [] : [{ ...part, id: ids(part.id), options: {} }]
      case "tool-result":
        return []
      default:
        return [withOptions(part, {})]
    }
  })
  return { ...message, content }
}

const isSame = (one: ModelId, other: ModelId): boolean => one.provider === other.provider && one.model === other.model

/**
 * The ids of calls as every provider takes them: some allow 40 characters, and none but
 * letters, digits, `_` and `-`. A model's own stay as they are.
 */
const idsFor = (message: Prompt.AssistantMessage, model: ModelId): (id: string) => string => {
  const origin = originOf(message)
  return origin === undefined || isSame(origin, model)
    ? (id) => id
    : (id) => plainId.test(id) ? id : `call_${FileChange.hashOf(id).slice(0, 24)}`
}

const plainId = /^[\w-]{1,40}$/
