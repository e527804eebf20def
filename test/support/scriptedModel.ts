/** A language model that asks for what a test says. */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

export type Call = readonly [id: string, name: string, params: unknown]

/** A model that asks for calls, turn by turn, then says it is done; `reason` is why its turns with calls end, or `"none"`. */
export const scriptedModel = (turns: ReadonlyArray<ReadonlyArray<Call>>, reason = "tool-calls") => {
  let turn = 0
  const seen: Array<Prompt.Prompt> = []
  const parts = (prompt: Prompt.Prompt) => {
    seen.push(prompt)
    const calls = turns[turn++] ?? []
    return [
      ...calls.map(([id, name, params]) => ({ type: "tool-call", id, name, params }) as const),
      ...calls.length > 0 && reason === "none" ? [] : [{
        type: "finish",
        reason: calls.length === 0 ? "stop" : reason,
        usage: {
          inputTokens: { uncached: undefined, total: 1, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 1, text: undefined, reasoning: undefined }
        },
        response: undefined
      }]
    ] as unknown as ReadonlyArray<Response.PartEncoded>
  }
  return {
    seen,
    layer: Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: ({ prompt }) => Effect.sync(() => [...parts(prompt)]),
        streamText: ({ prompt }) =>
          Stream.suspend(() =>
            Stream.fromIterable(parts(prompt) as unknown as ReadonlyArray<Response.StreamPartEncoded>)
          )
      })
    )
  }
}
