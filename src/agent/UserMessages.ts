/**
 * Which messages of a conversation are the user's own words, for `Provenance` and reviewers.
 *
 * Summaries, results of calls in the background, and notices of the executor are user messages for the model, but nobody
 * said them. What other agents say is not the user's either, so a sub-agent hears nothing.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Conversation from "./Conversation.ts"

/** Tells a process what the user said in these messages. */
export const hear = (
  agentPath: ReadonlyArray<string>,
  messages: ReadonlyArray<Prompt.Message>,
  process: Pick<ToolProcess, "heard">
): Effect.Effect<void> =>
  agentPath.length > 0
    ? Effect.void
    : Effect.forEach(
      messages,
      (it) => it.role === "user" ? heard(process, it) : it.role === "system" ? Effect.void : received(process, it),
      { discard: true }
    )

const heard = (process: Pick<ToolProcess, "heard">, message: Prompt.UserMessage): Effect.Effect<void> => {
  const name = Conversation.inputOf(message)
  const isOther = CompactedHistory.isRecord(message) || Conversation.isNotice(message) ||
    (name !== undefined && Conversation.isResult(name))
  const text = isOther ? "" : Conversation.textOf(message)
  return text === "" ? Effect.void : process.heard(text)
}

/**
 * Whoever gives the results of earlier calls may have them from anywhere: they prove nothing. Those of a provider's own
 * tools are in no journal.
 */
const received = (
  process: Pick<ToolProcess, "heard">,
  message: Prompt.AssistantMessage | Prompt.ToolMessage
): Effect.Effect<void> =>
  Effect.forEach(
    message.content.flatMap((it) => it.type === "tool-result" ? [it] : []),
    ({ result }) => process.heard(typeof result === "string" ? result : JSON.stringify(result) ?? "", "foreign"),
    { discard: true }
  )
