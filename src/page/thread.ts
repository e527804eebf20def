/**
 * A conversation as a person reads it: messages in order, the calls of each answer, and below a call the sub-agent that
 * works for it. Folded from the history and from the events of operations. Pure; fragments of texts may be missing.
 */
import { type Lane, lanesOf } from "../core/facts/Lanes.ts"
import type { Wire } from "../core/facts/ToolEvent.ts"
import type { AgentItem, Message } from "../server/api/ApiOperations.ts"
import { markOf, type State } from "./states.ts"

/** A call of an answer. */
export interface Call {
  readonly key: string
  readonly callId: string
  readonly tool: string
  readonly params: unknown
  /** Its events, and the end of its wave. */
  readonly events: ReadonlyArray<Wire>
  /** What the model read. */
  readonly result: { readonly text: string; readonly isError: boolean } | undefined
  /** The operation of the sub-agent that works for it. */
  readonly operation: string | undefined
}

/** A message of a person. */
export interface Said {
  readonly _tag: "Said"
  readonly id: string
  readonly text: string
  readonly at: number | undefined
  /** The model has not read it yet. */
  readonly isQueued: boolean
}

/** An answer of the model. */
export interface Answer {
  readonly _tag: "Answer"
  readonly id: string
  readonly text: string
  readonly thought: string
  readonly model: string
  readonly at: number | undefined
  readonly isStreaming: boolean
  readonly isCut: boolean
  /** Keys of its calls. */
  readonly calls: ReadonlyArray<string>
}

/** What the loop told the model or did on its own. */
export interface Remark {
  readonly _tag: "Remark"
  readonly id: string
  readonly text: string
  readonly at: number | undefined
}

/** A part of a conversation. */
export type Part = Said | Answer | Remark

/** An agent at work: the operation of a person's message, or of a call. */
export interface Work {
  readonly id: string
  readonly agentPath: ReadonlyArray<string>
  readonly parts: ReadonlyArray<Part>
  readonly turn: number
  /** How often it was continued after it was interrupted: turns may start from 1 again. */
  readonly continued: number
  readonly tokens: number
  readonly end: Extract<AgentItem, { readonly _tag: "OperationEnd" }> | undefined
}

/** What is known of the operations of a conversation. */
export interface Thread {
  /** Operations by id, those of sub-agents included, in the order in which they began. */
  readonly works: ReadonlyMap<string, Work>
  readonly calls: ReadonlyMap<string, Call>
  /** The ids in `works` of sub-agents, by the names of their operations and processes. */
  readonly names: ReadonlyMap<string, string>
}

/** The initial state. */
export const nothing: Thread = { works: new Map(), calls: new Map(), names: new Map() }

type Of<T extends AgentItem["_tag"]> = Extract<AgentItem, { readonly _tag: T }>
type Own = Extract<AgentItem, { readonly operation: string }>
type CallEvent = Extract<Wire, { readonly callId: string }>

/** The state after an item of the stream. */
export const after = (thread: Thread, item: AgentItem): Thread => {
  if (item._tag === "Reset") return nothing
  if ("operation" in item) return afterOwn(thread, item)
  if ("callId" in item) return afterCall(thread, item)
  return item._tag === "WaveSuspended" ? afterSuspension(thread, item) : thread
}

/** The parts and calls of messages that were read before the stream. */
export const ofHistory = (
  messages: ReadonlyArray<Message>
): { readonly parts: ReadonlyArray<Part>; readonly calls: ReadonlyMap<string, Call> } => {
  const calls = new Map<string, Call>()
  const open = new Map<string, string>()
  const parts = messages.flatMap((message, at): ReadonlyArray<Part> => {
    const id = `history-${at}`
    if (message.role === "user") return [{ _tag: "Said", id, text: message.text, at: undefined, isQueued: false }]
    if (message.role === "tool") {
      for (const { id, isError, text } of message.results ?? []) {
        const call = calls.get(open.get(id) ?? "")
        if (call !== undefined) calls.set(call.key, { ...call, result: { text, isError } })
      }
      return []
    }
    const keys = (message.calls ?? []).map(({ id: callId, name: tool, params }, index) => {
      const key = JSON.stringify([id, callId, index])
      calls.set(key, { key, callId, tool, params, events: [], result: undefined, operation: undefined })
      open.set(callId, key)
      return key
    })
    return [{ ...emptyAnswer(id, undefined), text: message.text, isStreaming: false, calls: keys }]
  })
  return { parts, calls }
}

/** Tokens of an operation with those of its sub-agents. */
export const tokensOf = (thread: Thread, id: string): number =>
  below(thread, id).reduce((sum, it) => sum + it.tokens, 0)

/** An operation and the operations of its sub-agents. */
const below = (thread: Thread, id: string): ReadonlyArray<Work> => {
  const work = thread.works.get(id)
  if (work === undefined) return []
  return [work, ...callsOf(thread, work).flatMap((it) => it.operation === undefined ? [] : below(thread, it.operation))]
}

/** The calls of an operation, without those of its sub-agents. */
export const callsOf = ({ calls }: Pick<Thread, "calls">, { parts }: Pick<Work, "parts">): ReadonlyArray<Call> =>
  parts.flatMap((it) => it._tag === "Answer" ? it.calls.flatMap((key) => calls.get(key) ?? []) : [])

/** All calls below an operation whose approval is pending, as far as the stream tells. */
export const waitingIn = (thread: Thread, id: string): ReadonlyArray<Call> =>
  below(thread, id).flatMap((it) => callsOf(thread, it)).filter((it) => stateOf(it) === "approval")

/** The state of a call, from its events or, without events, from its result. */
export const stateOf = (call: Pick<Call, "events" | "result">): State => {
  const lane = laneOf(call)
  if (call.result !== undefined && lane?.outcome === undefined) return call.result.isError ? "failed" : "succeeded"
  return lane === undefined ? "queued" : markOf(lane)
}

/** A call over time; `undefined` without events. */
export const laneOf = ({ events }: Pick<Call, "events">): Lane | undefined => lanesOf(events)[0]

// Utilities

const workOf = (thread: Thread, { agentPath, operation }: Pick<Own, "agentPath" | "operation">): Work => {
  const id = thread.names.get(operation) ?? operation
  return thread.works.get(id) ?? { id, agentPath, parts: [], turn: 0, continued: 0, tokens: 0, end: undefined }
}

const withWork = (thread: Thread, work: Work): Thread => ({
  ...thread,
  works: new Map(thread.works).set(work.id, work)
})

/** Gives a sub-agent to the call it works for. If the call has one, that one continues. */
const afterStart = (thread: Thread, item: Of<"SubAgentStarted">): Thread => {
  const { caller, operation, process } = item
  if (thread.names.has(process) && thread.names.has(operation)) return thread
  const call = Array.from(thread.calls.values()).findLast(({ events }) =>
    events.some((it) => "callId" in it && it.callId === caller.callId && it.process === caller.process)
  )
  const id = call?.operation ?? operation
  const names = new Map(thread.names).set(operation, id).set(process, id)
  const isContinued = id !== operation && !thread.names.has(operation)
  const known = workOf({ ...thread, names }, item)
  const next = withWork(
    { ...thread, names },
    isContinued ? { ...known, parts: brokenOff(known), continued: known.continued + 1 } : known
  )
  return call === undefined ? next : withCall(next, { ...call, operation: id })
}

const hasEnded = ({ events }: Call): boolean => events.some(({ _tag }) => _tag === "ToolCallComplete")

const withCall = (thread: Thread, call: Call): Thread => ({
  ...thread,
  calls: new Map(thread.calls).set(call.key, call)
})

const emptyAnswer = (id: string, at: number | undefined): Answer => ({
  _tag: "Answer",
  id,
  text: "",
  thought: "",
  model: "",
  at,
  isStreaming: true,
  isCut: false,
  calls: []
})

/** Replaces the part of an id, or adds it. */
const withPart = (work: Work, part: Part): Work => {
  const isThere = work.parts.some(({ _tag, id }) => id === part.id && _tag === part._tag)
  const parts = isThere
    ? work.parts.map((it) => it.id === part.id && it._tag === part._tag ? part : it)
    : [...work.parts, part]
  return { ...work, parts }
}

/** The parts of an operation whose model says no more. */
const brokenOff = ({ parts }: Work): ReadonlyArray<Part> =>
  parts.map((it) => it._tag === "Answer" && it.isStreaming ? { ...it, isStreaming: false, isCut: true } : it)

const answerOf = (work: Work, { at, turn }: Own): Answer => {
  const id = `turn-${work.continued}-${turn}`
  return work.parts.find((it): it is Answer => it._tag === "Answer" && it.id === id) ?? emptyAnswer(id, at)
}

const afterOwn = (thread: Thread, item: Own): Thread => {
  const known = workOf(thread, item)
  const isContinued = known.end !== undefined && item._tag !== "OperationEnd"
  const work = {
    ...known,
    turn: Math.max(known.turn, item.turn),
    ...isContinued ? { end: undefined, continued: known.continued + 1 } : {}
  }
  switch (item._tag) {
    case "SubAgentStarted":
      return afterStart(thread, item)
    case "AssistantMessagePart":
      return withWork(thread, afterFragment(work, item))
    case "AssistantMessageFinal":
      return afterAnswer(thread, work, item)
    case "ToolResultReceived": {
      const call = callOf(thread, work, item.callId, (it) => it.result === undefined && hasEnded(it))
      const { isError, text } = item
      const next = withWork(thread, work)
      return call === undefined ? next : withCall(next, { ...call, result: { text, isError } })
    }
    case "MessageQueued":
    case "MessageTaken": {
      const { at, id, text } = item
      const isQueued = item._tag === "MessageQueued"
      const before = work.parts.find((it): it is Said => it._tag === "Said" && it.id === id)
      if (before !== undefined && (isQueued || !before.isQueued)) return thread
      // the model reads it here
      const rest = { ...work, parts: work.parts.filter((it) => it !== before) }
      return withWork(thread, withPart(rest, { _tag: "Said", id, text, at: before?.at ?? at, isQueued }))
    }
    case "Reminded":
      return withWork(
        thread,
        withPart(work, {
          _tag: "Remark",
          id: `reminder-${work.continued}-${item.turn}-${item.about}`,
          text: item.text,
          at: item.at
        })
      )
    case "ModelRetry":
      return withWork(
        thread,
        withPart(work, { _tag: "Remark", id: `retry-${item.turn}-${item.at}`, text: retried(item), at: item.at })
      )
    case "HistoryCompacted":
      return withWork(
        thread,
        withPart(work, { _tag: "Remark", id: `compaction-${item.turn}-${item.at}`, text: compacted(item), at: item.at })
      )
    case "OperationEnd": {
      return withWork(thread, { ...work, parts: brokenOff(work), end: item })
    }
    default:
      return withWork(thread, work)
  }
}

const retried = ({ afterMillis, message }: Of<"ModelRetry">): string =>
  `The model did not answer: ${message} Trying again in ${Math.ceil(afterMillis / 1_000)} s.`

const compacted = ({ afterTokens, beforeTokens, by }: Of<"HistoryCompacted">): string =>
  `The model reads ${
    by === "summary" ? "a summary of older messages" : "no older messages"
  } from here on, so that the ` +
  `conversation fits its context window: ${beforeTokens} → ${afterTokens} tokens. All messages are still stored.`

const afterFragment = (work: Work, item: Of<"AssistantMessagePart">): Work => {
  const answer = answerOf(work, item)
  // a fragment of an answer that is complete was sent again
  if (!answer.isStreaming) return work
  const { part } = item
  const { text, thought } = answer
  return withPart(
    work,
    part.type === "text-delta"
      ? { ...answer, text: text + part.delta }
      : part.type === "reasoning-delta"
      ? { ...answer, thought: thought + part.delta }
      : part.type === "text-start" && text !== ""
      ? { ...answer, text: `${text}\n\n` }
      : answer
  )
}

const afterAnswer = (thread: Thread, before: Work, item: Of<"AssistantMessageFinal">): Thread => {
  const answer = answerOf(before, item)
  const { finish, model, text, toolCalls, usage } = item
  const keys = toolCalls.map(({ id }, index) => JSON.stringify([before.id, answer.id, id, index]))
  const calls = new Map(thread.calls)
  for (const [index, { id: callId, name: tool }] of toolCalls.entries()) {
    const key = keys[index]!
    if (calls.has(key)) continue
    calls.set(key, { key, callId, tool, params: undefined, events: [], result: undefined, operation: undefined })
  }
  const isAgain = answer.model !== ""
  const tokens = before.tokens + (isAgain ? 0 : usage.inputTokens + usage.outputTokens)
  const isCut = finish === "cut" || finish === "length"
  return withWork(
    { ...thread, calls },
    withPart({ ...before, tokens }, { ...answer, text, model, isCut, isStreaming: false, calls: keys })
  )
}

/** The last call of an operation with an id that fits. */
const callOf = (
  thread: Thread,
  work: Work,
  callId: string,
  fits: (call: Call) => boolean
): Call | undefined => {
  const own = callsOf(thread, work).filter((it) => it.callId === callId)
  return own.find(fits) ?? own.at(-1)
}

/** The operation whose process an event is of. Processes of roots are named after them. */
const workOfProcess = ({ names, works }: Thread, { agentPath, process }: Wire): Work | undefined => {
  if (agentPath.length > 0) return works.get(names.get(process) ?? "")
  const roots = Array.from(works.values()).filter((it) => it.agentPath.length === 0)
  const named = roots.filter(({ id }) => process.startsWith(id)).toSorted((a, b) => b.id.length - a.id.length)
  return named[0] ?? roots.at(-1)
}

const isOf = ({ index, process, wave }: CallEvent) => ({ events }: Call): boolean => {
  const first = events.find((it): it is CallEvent => "callId" in it)
  return first !== undefined && first.process === process && first.wave === wave && first.index === index
}

const afterCall = (thread: Thread, event: CallEvent): Thread => {
  const work = workOfProcess(thread, event)
  if (work === undefined) return thread
  const isSame = isOf(event)
  const call = callOf(thread, work, event.callId, isSame)
  const known = call !== undefined && isSame(call)
    ? call
    : callOf(thread, work, event.callId, ({ events }) => events.length === 0)
  if (known === undefined) return thread
  const isResumed = event._tag === "ToolCallQueued" && known.events.some(({ _tag }) => _tag === "WaveSuspended")
  const others = isResumed ? [] : known.events.filter((it) => it.sequence !== event.sequence)
  const params = event._tag === "ToolCallQueued" ? event.params : known.params
  return withCall(thread, { ...known, params, events: [...others, event] })
}

const afterSuspension = (thread: Thread, event: Of<"WaveSuspended">): Thread => {
  const work = workOfProcess(thread, event)
  if (work === undefined) return thread
  return callsOf(thread, work)
    .filter((it) => it.result === undefined && it.events.some(({ wave }) => wave === event.wave))
    .reduce((next, it) => {
      const others = it.events.filter(({ _tag }) => _tag !== "WaveSuspended")
      return withCall(next, { ...it, events: [...others, event] })
    }, thread)
}
