/**
 * What a model is sent of a conversation, as pure functions.
 *
 * A stored history never changes; each request is derived from it. Every call gets exactly one answer, directly after
 * it. Data bound to another model, such as signed reasoning, is dropped; the model's own is returned unchanged.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as CarriedPart from "../wire/CarriedPart.ts"

/** A model's provider and name, as recorded in histories. */
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

/** Which model made a message. */
export interface Origin extends ModelId {
  /** Where its calls run; absent if they must not run. */
  readonly run?: { readonly batch: string; readonly process: string } | undefined
  /** Tokens used for the message. */
  readonly usage?: typeof Used.Type | undefined
}

export const Origin = Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  run: Schema.optionalKey(Schema.Struct({ batch: Schema.String, process: Schema.String })),
  usage: Schema.optionalKey(Used)
})

/** The key of what this package records in provider options. */
export const key = "effect-tool-executor"

export const recorded = ({ model, provider, run, usage }: Origin) => ({
  provider,
  model,
  ...(run === undefined ? {} : { run: { ...run } }),
  ...(usage === undefined ? {} : { usage: { ...usage } })
})

/** Records the origin in each part of a message. */
export const mark = (
  message: Prompt.AssistantMessage,
  origin: Origin
): Prompt.AssistantMessage => {
  const own = recorded(origin)
  return { ...message, content: message.content.map((part) => withOptions(part, { ...part.options, [key]: own })) }
}

/** The message of a user, with a name that `inputOf` finds. */
export const input = (text: string, id: string): Prompt.UserMessage =>
  Prompt.userMessage({ content: [Prompt.textPart({ text })], options: { [key]: { input: id } } })

/** The name of a user's message, if it has one. */
export const inputOf = (message: Prompt.Message): string | undefined => {
  const found = Object.hasOwn(message.options, key) ? message.options[key] : undefined
  return isInput(found) ? found.input : undefined
}

/** A message of the executor: the model reads it as a user's, but nobody said it. */
export const notice = (text: string): Prompt.UserMessage =>
  Prompt.userMessage({ content: [Prompt.textPart({ text })], options: { [key]: { notice: true } } })

/** Tells whether a message is the executor's. */
export const isNotice = ({ options }: Prompt.Message): boolean => {
  const found: unknown = Object.hasOwn(options, key) ? options[key] : undefined
  return typeof found === "object" && found !== null && "notice" in found
}

/** Returns the recorded origin of a message. */
export const originOf = (message: Prompt.AssistantMessage): Origin | undefined => {
  for (const part of message.content) {
    const origin = partOrigin(part)
    if (origin !== undefined) return origin
  }
  return undefined
}

/** The turns whose calls ran in a batch, with their usage; if a process is named, those of it. */
export const turnsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  { batch, process }: { readonly batch: string; readonly process?: string | undefined }
): ReadonlyArray<Origin> =>
  originsIn(messages).filter(({ run }) => run?.batch === batch && (process === undefined || run.process === process))

/** The message parts of those turns. */
export const partsOf = (
  messages: ReadonlyArray<Prompt.Message>,
  run: Exclude<Origin["run"], undefined>
): ReadonlyArray<Prompt.AssistantMessagePart> => turnsIn(messages, run).flatMap(([{ content }]) => content)

/** The origins of all messages of models. */
export const originsIn = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Origin> =>
  messages.flatMap((it) => it.role === "assistant" ? originOf(it) ?? [] : [])

/** A history whose calls carry what `found` has of their sub-agents, and nothing else. */
export const carrying = (
  messages: ReadonlyArray<Prompt.Message>,
  found: (process: string, call: string) => Schema.Json | undefined
): ReadonlyArray<Prompt.Message> =>
  messages.map((message) => {
    if (message.role !== "assistant") return message
    const content = message.content.map((part): Part => {
      const origin = part.type === "tool-call" ? partOrigin(part) : undefined
      if (part.type !== "tool-call" || origin?.run === undefined) return part
      const { below: before, ...own } = ownOf(part)
      const below = found(origin.run.process, part.id)
      if (below === undefined && before === undefined) return part
      return withOptions(part, { ...part.options, [key]: below === undefined ? own : { ...own, below } })
    })
    return { ...message, content }
  })

/** What the calls of a history carry. */
export const carriedBy = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Schema.Json | undefined> =>
  messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((part) => part.type === "tool-call" ? [ownOf(part)["below"]] : [])
      : []
  )

export interface Open {
  readonly calls: ReadonlyArray<Prompt.ToolCallPart>
  readonly origin: Origin | undefined
}

/** Finds the calls of the model's last message that have no answer. */
export const open = (messages: ReadonlyArray<Prompt.Message>): Open => {
  const at = messages.findLastIndex((it) => it.role === "assistant")
  const last = messages[at]
  if (last?.role !== "assistant") return { calls: [], origin: undefined }
  const answered = answersBehind(messages, at)
  return { calls: callsOf(last).filter((it) => !answered.has(it.id)), origin: originOf(last) }
}

/** The calls of a message that the provider did not execute. */
export const callsOf = ({ content }: Prompt.AssistantMessage): ReadonlyArray<Prompt.ToolCallPart> =>
  content.filter((it) => it.type === "tool-call" && !it.providerExecuted) as ReadonlyArray<Prompt.ToolCallPart>

export const textOf = ({ content }: Prompt.AssistantMessage | Prompt.UserMessage): string =>
  content.map((it) => it.type === "text" ? it.text : "").join("")

/** The text of the last message of a model. */
export const lastText = (messages: ReadonlyArray<Prompt.Message>): string => {
  const last = messages.findLast((it) => it.role === "assistant")
  return last === undefined ? "" : textOf(last)
}

/** A call that runs in the background. */
export interface Begun {
  readonly name: string
  readonly call: Prompt.ToolCallPart
  readonly run: Exclude<Origin["run"], undefined>
}

/** The answer to a call that runs in the background under a name. */
export const begun = (call: Pick<Prompt.ToolCallPart, "id" | "name">, background: string): Prompt.ToolResultPart =>
  Prompt.toolResultPart({
    id: call.id,
    name: call.name,
    isFailure: false,
    result: `"${call.name}" runs in the background as "${background}". Its result will arrive as a message.`,
    providerExecuted: false,
    options: { [key]: { background } }
  })

/** The name of the message with the result of a call that ran in the background. */
export const resultOf = (background: string): string => `${results}${background}`

/** Tells whether a message of this name has such a result. The messages of people have no such names. */
export const isResult = (name: string): boolean => name.startsWith(results)

const results = "background/"

/** Every call of a history that was begun in the background, oldest first. */
export const begunIn = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Begun> => {
  let last: Prompt.AssistantMessage | undefined
  return messages.flatMap((message): ReadonlyArray<Begun> => {
    if (message.role === "assistant") last = message
    if (message.role !== "tool" || last === undefined) return []
    const { run } = originOf(last) ?? {}
    const calls = callsOf(last)
    return message.content.flatMap((part) => {
      const name = part.type === "tool-result" ? ownOf(part)["background"] : undefined
      const call = part.type === "tool-result" ? calls.find((it) => it.id === part.id) : undefined
      return typeof name === "string" && call !== undefined && run !== undefined ? [{ name, call, run }] : []
    })
  })
}

/** What began in the background and has no result yet. */
export const behind = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Begun> => {
  const begun = begunIn(messages)
  if (begun.length === 0) return begun
  const heard = new Set(messages.map(inputOf))
  return begun.filter(({ name }) => !heard.has(resultOf(name)))
}

/** Gives each call an id that is unique in the conversation; some servers send equal or empty ids. */
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
 * Keeps only the text of a message that was cut off. Unfinished calls were never made, and unfinished reasoning cannot
 * be sent back.
 */
export const said = (message: Prompt.AssistantMessage | undefined): Prompt.AssistantMessage | undefined => {
  const content = (message?.content ?? []).flatMap((it) =>
    it.type === "text" && it.text.trim() !== "" ? [Prompt.textPart({ text: it.text })] : []
  )
  return content.length === 0 ? undefined : Prompt.assistantMessage({ content })
}

/**
 * Explains why a message that ends with an unexecuted provider call is incomplete. `undefined` if text follows it or
 * other calls can run.
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
    ? `the provider requires approval of its own call of ${name}, which is not supported here`
    : `the provider returned no result for its own call of ${name}`
}

/** Answers calls that have no outcome with a text. */
export const answerAll = (
  calls: ReadonlyArray<Pick<Prompt.ToolCallPart, "id" | "name">>,
  text: string = unanswered
): Prompt.ToolMessage => Prompt.toolMessage({ content: calls.map((it) => noResult(it, text)) })

/** Derives what a model is sent from a history. */
export const forModel = (messages: ReadonlyArray<Prompt.Message>, model: ModelId): Prompt.Prompt => {
  const sent: Array<Prompt.Message> = []
  const taken = new Set<string>()
  const provided = providedIn(messages, model)
  const asked = messages.findLastIndex((it) => it.role === "user")
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") continue
    if (message.role === "system") {
      if (message.content.trim() !== "") sent.push(message)
      continue
    }
    if (message.role === "user") {
      // providers reject blank texts, and every later request with them
      const content = message.content.filter((it) => it.type !== "text" || it.text.trim() !== "")
      const { [key]: _, ...options } = message.options
      if (content.length > 0) sent.push({ ...message, content, options })
      continue
    }
    const called = calledFor(message, model, taken)
    // after the last user message, a provider may still execute its own calls
    const fit = assistant(message, model, called, provided, index >= asked)
    if (fit.content.length > 0) sent.push(fit)
    if (called.size === 0) continue
    const answers = answersBehind(messages, index)
    sent.push(Prompt.toolMessage({
      content: Array.from(called.values(), ({ call, id, name }) => {
        const answer = answers.get(call.id) ?? noResult(call, unanswered)
        return { ...answer, id, name, options: withoutOwn(answer.options) }
      })
    }))
  }
  return Prompt.fromMessages(sent)
}

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

const isOrigin = Schema.is(Origin)

const isInput = Schema.is(Schema.Struct({ input: Schema.String }))

/** Answers a call whose result is missing. */
export const unanswered =
  "This call has no result: it was interrupted. It may or may not have happened. Check the state before you repeat it."

const noResult = ({ id, name }: Pick<Prompt.ToolCallPart, "id" | "name">, result: string): Prompt.ToolResultPart =>
  Prompt.toolResultPart({ id, name, isFailure: true, result, providerExecuted: false })

type Part = Prompt.AssistantMessagePart

const withOptions = (part: Part, options: Prompt.ProviderOptions): Part => ({ ...part, options }) as Part

const withoutOwn = (options: Prompt.ProviderOptions): Prompt.ProviderOptions =>
  Object.hasOwn(options, key) ? Object.fromEntries(Object.entries(options).filter(([name]) => name !== key)) : options

/** What is recorded in a part. */
const ownOf = ({ options }: Pick<Part, "options">): Schema.JsonObject => {
  const found = Object.hasOwn(options, key) ? options[key] : undefined
  return typeof found === "object" && found !== null && !Array.isArray(found) ? found as Schema.JsonObject : {}
}

const partOrigin = ({ options }: Part): Origin | undefined => {
  const found = Object.hasOwn(options, key) ? options[key] : undefined
  // a stored history may hold anything
  return isOrigin(found) ? found : undefined
}

/** The answers between a message and the model's next one; the first for each call counts. */
const answersBehind = (messages: ReadonlyArray<Prompt.Message>, at: number): Map<string, Prompt.ToolResultPart> => {
  const found = new Map<string, Prompt.ToolResultPart>()
  for (let index = at; index < messages.length; index++) {
    const message = messages[index]!
    if (message.role === "assistant" && index > at) break
    if (message.role !== "assistant" && message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type !== "tool-result" || part.providerExecuted || found.has(part.id)) continue
      // an answer inside the message may carry another origin
      found.set(part.id, index === at ? { ...part, options: {} } : part)
    }
  }
  return found
}

/** A call with the id and name a model is sent. */
interface Called {
  readonly call: Prompt.ToolCallPart
  readonly id: string
  readonly name: string
}

/**
 * The calls of a message by id, renamed for a model. Of calls with the same id only the first is kept, since an answer
 * could not be matched. An id used by an earlier message is replaced, because providers reject duplicates.
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

/**
 * A provider accepts the ids it made. A call of unknown origin keeps its id only if provider options are attached to
 * it.
 */
const keepsId = ({ options }: Prompt.ToolCallPart, origin: Origin | undefined, model: ModelId): boolean =>
  origin === undefined ? Object.keys(options).length > 0 : isSame(origin, model)

/** Ids every provider accepts: Mistral requires exactly nine letters or digits. */
const plainId = /^[a-zA-Z0-9]{9}$/

/** 44 bits of a hash take at most nine base-36 digits. */
const madeId = (id: string): string =>
  Number.parseInt(FileChange.hashOf(id).slice(0, 11), 16).toString(36).padStart(9, "0")

/**
 * Makes a name providers accept. A model may call a name that is not valid for a tool, and its provider then rejects
 * the history.
 */
const plainNameOf = (name: string, fits: RegExp): string =>
  fits.test(name) ? name : `_${name.replaceAll(/[^\w-]/g, "_").slice(0, 63)}`

/** Anthropic allows 128 characters; Google does not allow a leading digit. */
const ownName = /^[\w-]{1,128}$/
const plainName = /^[a-zA-Z_][\w-]{0,63}$/

/** The calls that the model's own provider executes, by id, and those that it has answered. */
interface Provided {
  readonly calls: ReadonlySet<string>
  readonly results: ReadonlySet<string>
}

const providedIn = (messages: ReadonlyArray<Prompt.Message>, model: ModelId): Provided => {
  const found = messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((it) => isOf(it, model) ? CarriedPart.providedOf(it) ?? [] : [])
      : []
  )
  const ids = (type: "tool-call" | "tool-result") => new Set(found.flatMap((it) => it.type === type ? [it.id] : []))
  return { calls: ids("tool-call"), results: ids("tool-result") }
}

const isOf = (part: Part, model: ModelId): boolean => {
  const origin = partOrigin(part)
  return origin === undefined || isSame(origin, model)
}

/**
 * A message as a given model accepts it. Of calls that a provider executes, it has those with a result and results with
 * a call: a provider refuses one without the other, unless it may still answer (`isOpen`).
 */
const assistant = (
  message: Prompt.AssistantMessage,
  model: ModelId,
  called: ReadonlyMap<string, Called>,
  provided: Provided,
  isOpen: boolean
): Prompt.AssistantMessage => {
  const content = message.content.flatMap((part): ReadonlyArray<Part> => {
    if (part.type === "tool-approval-request") return []
    const isOwn = isOf(part, model)
    const options = isOwn ? withoutOwn(part.options) : {}
    const executed = CarriedPart.providedOf(part)
    if (executed !== undefined) {
      const isWhole = executed.type === "tool-result"
        ? provided.calls.has(executed.id)
        : isOpen || provided.results.has(executed.id)
      return isOwn && isWhole ? [withOptions(part, options)] : []
    }
    switch (part.type) {
      case "reasoning":
        return isOwn ? [withOptions(part, options)] : []
      case "text":
        // providers reject empty texts unless they carry provider data
        return part.text.trim() === "" && Object.keys(options).length === 0 ? [] : [withOptions(part, options)]
      case "tool-call": {
        const { call, id, name } = called.get(part.id)!
        return call === part ? [{ ...part, id, name, options }] : []
      }
      case "tool-result":
        return []
      default:
        return [withOptions(part, options)]
    }
  })
  // providers reject a message that ends with reasoning
  return { ...message, content: content.slice(0, content.findLastIndex((it) => it.type !== "reasoning") + 1) }
}

const isSame = (one: ModelId, other: ModelId): boolean => one.provider === other.provider && one.model === other.model
