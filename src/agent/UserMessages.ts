/**
 * Which messages of a conversation are the user's own words, for `Provenance` and reviewers.
 *
 * Summaries, results of calls in the background, and notices of the executor are user messages for the model, but nobody
 * said them. What other agents say is not the user's either, so an agent that works for a call hears only results.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type { RecalledResult, ToolProcess } from "../core/contract/ToolProcess.ts"
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Conversation from "./Conversation.ts"

/** Tells a process what the user said in these messages, and the results that they have of calls. */
export const hear = (
  messages: ReadonlyArray<Prompt.Message>,
  process: Pick<ToolProcess, "heard" | "isForCall" | "recalled">
): Effect.Effect<void> =>
  Effect.andThen(
    process.recalled(messages.flatMap(resultsIn)),
    process.isForCall
      ? Effect.void
      : Effect.forEach(
        messages,
        (it) => {
          const text = it.role !== "user" || isOther(it) ? "" : Conversation.textOf(it)
          return text === "" ? Effect.void : process.heard(text)
        },
        { discard: true }
      )
  )

const isOther = (message: Prompt.UserMessage): boolean => {
  const name = Conversation.inputOf(message)
  return CompactedHistory.isRecord(message) || Conversation.isNotice(message) ||
    (name !== undefined && Conversation.isResult(name))
}

const resultsIn = (message: Prompt.Message): ReadonlyArray<RecalledResult> => {
  if (message.role === "user") {
    const name = Conversation.inputOf(message)
    // of a call in the background
    return name !== undefined && Conversation.isResult(name)
      ? [{ id: name, name: "background", output: Conversation.textOf(message) }]
      : []
  }
  if (message.role === "system") return []
  return message.content.flatMap((it) =>
    it.type === "tool-result" ? [{ id: it.id, name: it.name, output: it.result }] : []
  )
}
