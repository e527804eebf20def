/**
 * What a model is sent of a conversation, as pure functions.
 *
 * A history that is kept never changes. What goes to a model is made of it each time: sound, so that any provider takes
 * it (every call has one answer right behind it, no answer stands without its call), and fit for that model: what
 * another model has bound to itself, such as reasoning with its signature, is left out, and what is its own goes back
 * as it came.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as FileChange from "../core/vocabulary/FileChange.ts"

/** A model, as histories name it. */
export interface ModelId {
  readonly provider: string
  readonly model: string
}

const Tokens = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const Used = Schema.Struct({
  inputTokens: Tokens,
  outputTokens: Tokens,
  cachedInputTokens: Tokens,
  cacheWriteInputTokens: Tokens
})

/** Who made a message. */
export interface Origin extends ModelId {
  /** Where its calls are run; absent: they are not to be run, whatever becomes of it. */
  readonly run?: { readonly batch: string; readonly process: string } | undefined
  /** What its model used for it. */
  readonly usage?: typeof Used.Type | undefined
}

/** The name under which parts carry their origin, among the options of providers. */
const key = "effect-tool-executor"

/** Notes in each part of a message who made it. */
export const mark = (
  message: Prompt.AssistantMessage,
  { model, provider, run, usage }: Origin
): Prompt.AssistantMessage => {
  const origin = {
    provider,
    model,
    ...(run === undefined ? {} : { run: { ...run } }),
    ...(usage === undefined ? {} : { usage: { ...usage } })
  }
  return { ...message, content: message.content.map((part) => withOptions(part, { ...part.options, [key]: origin })) }
}

/** Tells who made a message; `undefined` where nobody noted it. */
export const originOf = (message: Prompt.AssistantMessage): Origin | undefined => {
  for (const part of message.content) {
    const origin = partOrigin(part)
    if (origin !== undefined) return origin
  }
  return undefined
}

/** The turns of a model that are run in one place, and what they used. */
export const turnsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  run: Exclude<Origin["run"], undefined>
): ReadonlyArray<Origin> => turnsIn(messages, run).map(([, origin]) => origin)

/** What a model said in the turns of one process. */
export const partsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  run: Exclude<Origin["run"], undefined>
): ReadonlyArray<Prompt.AssistantMessagePart> => turnsIn(messages, run).flatMap(([{ content }]) => content)

/** The calls of the last message of a model that have no answer yet. */
export interface Open {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly origin: Origin | undefined
}

/** Finds the calls of the last message of a model that have no answer. */
export const open = (messages: ReadonlyArray<Prompt.Message>): Open => {
  const at = messages.findLastIndex((it) => it.role === "assistant")
  const last = messages[at]
  if (last?.role !== "assistant") return { calls: [], origin: undefined }
  const answered = answersBehind(messages, at)
  return { calls: callsOf(last).filter((it) => !answered.has(it.id)), origin: originOf(last) }
}

/** The calls of a message that a provider has not executed itself. */
export const callsOf = ({ content }: Prompt.AssistantMessage): ReadonlyArray<Prompt.ToolCallPart> =>
  content.filter((it) => it.type === "tool-call" && !it.providerExecuted) as ReadonlyArray<Prompt.ToolCallPart>

/** Gives calls ids that no other call of the conversation has: some servers give all of them the same, or none. */
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
 * What is left of a message whose model did not get to its end: what it said. A call that was under way was never made,
 * and reasoning without its end nobody takes back.
 */
export const said = (message: Prompt.AssistantMessage | undefined): Prompt.AssistantMessage | undefined => {
  const content = (message?.content ?? []).flatMap((it) =>
    it.type === "text" && it.text.trim() !== "" ? [Prompt.textPart({ text: it.text })] : []
  )
  return content.length === 0 ? undefined : Prompt.assistantMessage({ content })
}

/**
 * Says what a message waits for where it ends with a call that its provider was to execute and has not: `undefined`
 * where it says something behind it, or has other calls to go on with.
 */
export const unexecuted = (message: Prompt.AssistantMessage | undefined): string | undefined => {
  if (message === undefined || callsOf(message).length > 0) return undefined
  const { content } = message
  const last = content.findLast((it) =>
    it.type === "text" ? it.text.trim() !== "" : it.type !== "reasoning" && it.type !== "tool-approval-request"
  )
  if (last?.type !== "tool-call") return undefined
  const name = JSON.stringify(last.name)
  return content.some((it) => it.type === "tool-approval-request" && it.toolCallId === last.id)
    ? `the provider wants somebody to approve its own call of ${name}, which nobody here can`
    : `the provider was to execute its own call of ${name}, and gave no result`
}

/** Answers calls with a text alone: those that have no outcome. */
export const answerAll = (
  calls: ReadonlyArray<Pick<Prompt.ToolCallPart, "id" | "name">>,
  text: string = unanswered
): Prompt.ToolMessage => Prompt.toolMessage({ content: calls.map((it) => noResult(it, text)) })

/** Gives what a model is sent of a history. */
export const forModel = (messages: ReadonlyArray<Prompt.Message>, model: ModelId): Prompt.Prompt => {
  const sent: Array<Prompt.Message> = []
  const taken = new Set<string>()
  const executed = executedIn(messages, model)
  const asked = messages.findLastIndex((it) => it.role === "user")
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") continue
    if (message.role === "system") {
      if (message.content.trim() !== "") sent.push(message)
      continue
    }
    if (message.role === "user") {
      // providers refuse texts that say nothing, and with them all that comes after
      const content = message.content.filter((it) => it.type !== "text" || it.text.trim() !== "")
      if (content.length > 0) sent.push({ ...message, content })
      continue
    }
    const called = calledFor(message, model, taken)
    // a provider may still execute what it called since somebody last said something
    const fit = assistant(message, model, called, index < asked ? executed : undefined)
    if (fit.content.length > 0) sent.push(fit)
    if (called.size === 0) continue
    const answers = answersBehind(messages, index)
    sent.push(Prompt.toolMessage({
      content: Array.from(called.values(), ({ call, id, name }) => ({
        ...answers.get(call.id) ?? noResult(call, unanswered),
        id,
        name
      }))
    }))
  }
  return Prompt.fromMessages(sent)
}

// Utilities

const turnsIn = (
  messages: ReadonlyArray<Prompt.Message>,
  run: Exclude<Origin["run"], undefined>
): ReadonlyArray<readonly [Prompt.AssistantMessage, Origin]> =>
  messages.flatMap((message) => {
    const origin = message.role === "assistant" ? originOf(message) : undefined
    return message.role === "assistant" && origin?.run?.batch === run.batch && origin.run.process === run.process
      ? [[message, origin]]
      : []
  })

const isOrigin = Schema.is(Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  run: Schema.optionalKey(Schema.Struct({ batch: Schema.String, process: Schema.String })),
  usage: Schema.optionalKey(Used)
}))

/** What a model is told of a call whose answer is nowhere. */
const unanswered =
  "There is no result of this call: it was interrupted. It may or may not have happened. Look before you repeat it."

const noResult = ({ id, name }: Pick<Prompt.ToolCallPart, "id" | "name">, result: string): Prompt.ToolResultPart =>
  Prompt.toolResultPart({ id, name, isFailure: true, result, providerExecuted: false })

type Part = Prompt.AssistantMessagePart

const withOptions = (part: Part, options: Prompt.ProviderOptions): Part => ({ ...part, options }) as Part

const partOrigin = ({ options }: Part): Origin | undefined => {
  const found = Object.hasOwn(options, key) ? options[key] : undefined
  // it comes from wherever the history does
  return isOrigin(found) ? found : undefined
}

/** The answers in a message of a model, and from there to the next one; the first of each call counts. */
const answersBehind = (messages: ReadonlyArray<Prompt.Message>, at: number): Map<string, Prompt.ToolResultPart> => {
  const found = new Map<string, Prompt.ToolResultPart>()
  for (let index = at; index < messages.length; index++) {
    const message = messages[index]!
    if (message.role === "assistant" && index > at) break
    if (message.role !== "assistant" && message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type !== "tool-result" || part.providerExecuted || found.has(part.id)) continue
      // one that stands in the message itself may say whose message that is
      found.set(part.id, index === at ? { ...part, options: {} } : part)
    }
  }
  return found
}

/** A call, and the id and the name under which a model is sent it. */
interface Called {
  readonly call: Prompt.ToolCallPart
  readonly id: string
  readonly name: string
}

/**
 * The calls of a message as a model takes them, by their ids. Of calls of one id it is the first: an answer could not
 * say which of them it is to. An id that an earlier message has taken is another one's, and each provider refuses it.
 */
const calledFor = (
  message: Prompt.AssistantMessage,
  model: ModelId,
  taken: Set<string>
): ReadonlyMap<string, Called> => {
  const origin = originOf(message)
  const isOwn = origin === undefined || isSame(origin, model)
  const found = new Map<string, Called>()
  for (const call of callsOf(message)) {
    if (found.has(call.id)) continue
    const fit = keepsId(call, origin, model) || plainId.test(call.id) ? call.id : madeId(call.id)
    const id = taken.has(fit) ? madeId(`${taken.size} ${call.id}`) : fit
    taken.add(id)
    found.set(call.id, { call, id, name: plainNameOf(call.name, isOwn ? ownName : plainName) })
  }
  return found
}

/** A provider knows the ids that it gave. What nobody is known to have given may come from another, unless a provider spoke of it. */
const keepsId = ({ options }: Prompt.ToolCallPart, origin: Origin | undefined, model: ModelId): boolean =>
  origin === undefined ? Object.keys(options).length > 0 : isSame(origin, model)

/** Ids that every provider takes: Mistral and servers with its templates have nine letters and digits, and no others. */
const plainId = /^[a-zA-Z0-9]{9}$/

/** 44 bits of a hash have at most nine digits to the base of 36. */
const madeId = (id: string): string =>
  Number.parseInt(FileChange.hashOf(id).slice(0, 11), 16).toString(36).padStart(9, "0")

/**
 * A name that providers take. A model may call what is no name of a tool, and its own provider refuses the conversation
 * that says so.
 */
const plainNameOf = (name: string, fits: RegExp): string =>
  fits.test(name) ? name : `_${name.replaceAll(/[^\w-]/g, "_").slice(0, 63)}`

/** Anthropic has names of 128 characters; for Google no name begins with a digit. */
const ownName = /^[\w-]{1,128}$/
const plainName = /^[a-zA-Z_][\w-]{0,63}$/

/** The calls that a model's own provider executed and gave a result of. */
const executedIn = (messages: ReadonlyArray<Prompt.Message>, model: ModelId): ReadonlySet<string> =>
  new Set(messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((it) =>
        it.type === "tool-result" && it.providerExecuted && isOf(it, model) ? [it.id] : []
      )
      : []
  ))

const isOf = (part: Part, model: ModelId): boolean => {
  const origin = partOrigin(part)
  return origin === undefined || isSame(origin, model)
}

/**
 * A message of a model as this model takes it. Of the calls that a provider was to execute, only those in `executed`
 * are taken back, where that is given.
 */
const assistant = (
  message: Prompt.AssistantMessage,
  model: ModelId,
  called: ReadonlyMap<string, Called>,
  executed: ReadonlySet<string> | undefined
): Prompt.AssistantMessage => {
  const content = message.content.flatMap((part): ReadonlyArray<Part> => {
    if (part.type === "tool-approval-request") return []
    const isOwn = isOf(part, model)
    const options = Object.fromEntries(Object.entries(part.options).filter(([name]) => isOwn && name !== key))
    switch (part.type) {
      case "reasoning":
        return isOwn ? [withOptions(part, options)] : []
      case "text":
        // providers refuse empty texts, but for those that stand for something of their own
        return part.text.trim() === "" && Object.keys(options).length === 0 ? [] : [withOptions(part, options)]
      case "tool-call": {
        if (part.providerExecuted) {
          return isOwn && executed?.has(part.id) !== false ? [withOptions(part, options)] : []
        }
        const { call, id, name } = called.get(part.id)!
        return call === part ? [{ ...part, id, name, options }] : []
      }
      case "tool-result":
        return isOwn && part.providerExecuted ? [withOptions(part, options)] : []
      default:
        return [withOptions(part, options)]
    }
  })
  // reasoning that nothing came of: providers refuse a message that ends with it
  return { ...message, content: content.slice(0, content.findLastIndex((it) => it.type !== "reasoning") + 1) }
}

const isSame = (one: ModelId, other: ModelId): boolean => one.provider === other.provider && one.model === other.model
