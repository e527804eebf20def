/**
 * What an operation did in the moment before its process was killed, as events.
 *
 * Events are stored a moment after they happen. The transcript and the journal are stored before anything depends on
 * them, so they have what the stored events lack. Of sub-agents they have it in another form: their events stay missing.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as AgentEvent from "../../agent/AgentEvent.ts"
import * as Conversation from "../../agent/Conversation.ts"
import type { Journal, JournalError } from "../../core/store/Journal.ts"
import type { Of } from "../../core/store/JournalEntry.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import * as Principals from "../users/Principals.ts"
import type { ServedOperation } from "./ServedOperation.ts"

/** Tells an operation what its transcript has and its log lacks. `messages` are those of the transcript. */
export const tell = Effect.fnUntraced(function*(
  operation: ServedOperation,
  messages: ReadonlyArray<Prompt.Message>,
  journal: Journal["Service"],
  at: number
): Effect.fn.Return<void, JournalError> {
  const told = operation.log.kept(0).map(([, event]) => event).filter(({ agentPath }) => agentPath.length === 0)
  const missed = messages.slice(firstMissed(operation, messages, told))
  const calls = new Map(
    messages.flatMap((it) => it.role === "assistant" ? Conversation.callsOf(it).map((call) => [call.id, call]) : [])
  )
  const answered = missed.flatMap((it) => it.role === "tool" ? it.content : []).flatMap(resultIn)
  const ended = new Set(told.flatMap((it) => it._tag === "ToolCallComplete" ? [it.callId] : []))
  const isMissed = answered.some(({ id }) => !ended.has(id))
  const settled = isMissed ? yield* settledOf(operation, journal) : new Map<string, Of<"Settled">>()
  let { turn } = operation.info
  const own = () => ({ agentPath: [], operation: operation.id, turn, at })
  for (const message of missed) {
    if (message.role === "assistant") {
      turn++
      operation.tell({ ...own(), ...finalOf(message) })
    } else if (message.role === "user") {
      const id = Conversation.inputOf(message)
      if (id !== undefined) operation.tell({ ...own(), _tag: "MessageTaken", id, text: Conversation.textOf(message) })
    } else if (message.role === "tool") {
      for (const { id } of message.content.flatMap(resultIn)) {
        const entry = ended.has(id) ? undefined : settled.get(id)
        if (entry === undefined) continue
        const { outcome } = entry
        const { callId, isError, text, tool } = ToolOutcome.toMessage(outcome)
        const hasBegun = outcome.startedAt !== undefined && !told.some((it) => isOf(it, "ExecutingTool", id))
        if (hasBegun) operation.tell({ ...own(), _tag: "ExecutingTool", callId, tool })
        for (const event of endOf(entry, calls.get(id), told, at)) operation.tell(event)
        operation.tell({ ...own(), _tag: "ToolResultReceived", callId, tool, isError, text, outcome })
      }
    }
  }
})

/** Behind the last message that was told: events are stored in order. */
const firstMissed = (
  { submitted }: ServedOperation,
  messages: ReadonlyArray<Prompt.Message>,
  told: ReadonlyArray<AgentEvent.Wire>
): number => {
  const begins = messages.findIndex((it) => Conversation.inputOf(it) === submitted.inputs[0].id)
  if (begins < 0) return messages.length
  const finals = told.flatMap((it) => it._tag === "AssistantMessageFinal" ? [textOf(it.text, it.toolCalls)] : [])
  let last = begins
  for (let at = begins; at < messages.length; at++) {
    const message = messages[at]!
    if (message.role !== "assistant") continue
    // equal ones are told as often as they were said
    const found = finals.indexOf(textOf(Conversation.textOf(message), Conversation.callsOf(message)))
    if (found < 0) continue
    finals.splice(0, found + 1)
    last = at
  }
  return last + 1
}

const textOf = (text: string, calls: ReadonlyArray<{ readonly id: string }>): string =>
  JSON.stringify([text, ...calls.map(({ id }) => id)])

const resultIn = (part: Prompt.ToolMessagePart): ReadonlyArray<Prompt.ToolResultPart> =>
  part.type === "tool-result" ? [part] : []

const finalOf = (message: Prompt.AssistantMessage) => {
  const { model = "", provider = "", usage } = Conversation.originOf(message) ?? {}
  return {
    _tag: "AssistantMessageFinal",
    message,
    finish: Conversation.callsOf(message).length > 0 ? "tool-calls" : "stop",
    usage: usage ?? nothing,
    provider,
    model
  } as const
}

const nothing: AgentEvent.Usage = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

const isOf = (event: AgentEvent.Wire, tag: "ExecutingTool" | "ToolCallQueued", call: string): boolean =>
  event._tag === tag && event.callId === call

/** How the calls of the operation ended, by their ids. */
const settledOf = ({ id, submitted }: ServedOperation, journal: Journal["Service"]) => {
  const principal = Principals.toPrincipal(submitted)
  return Stream.runFold(
    journal.read({ principal, batch: id, tag: "Settled" }),
    () => new Map<string, Of<"Settled">>(),
    (found, { entry }) =>
      entry._tag === "Settled" && entry.agentPath.length === 0 ? found.set(entry.callId, entry) : found
  )
}

/** What is not told of a call: its arrival, and its end. */
const endOf = (
  { batch, callId, index, outcome, process, tool, wave }: Of<"Settled">,
  call: Prompt.ToolCallPart | undefined,
  told: ReadonlyArray<AgentEvent.Wire>,
  at: number
): ReadonlyArray<AgentEvent.AgentEvent> => {
  let sequence = told.filter((it) => "sequence" in it && it.process === process && it.wave === wave).length
  const about = () => ({ agentPath: [], batch, process, wave, sequence: ++sequence, at, callId, tool, index })
  const isQueued = told.some((it) => isOf(it, "ToolCallQueued", callId))
  return [
    ...isQueued ? [] : [{ _tag: "ToolCallQueued", ...about(), params: call?.params } as const],
    { _tag: "ToolCallComplete", ...about(), outcome, dropped: 0 }
  ]
}
