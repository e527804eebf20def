/**
 * A conversation that changes its model at a turn, and changes back: each model is sent what is its own as it came, and
 * nothing that is another's.
 */
import { wrapLanguageModel } from "ai"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Conversation from "../../../src/agent/Conversation.ts"
import type { Name } from "../providers/providers.ts"
import type { Turn } from "../providers/script.ts"
import { agentsOf, checking, kept, modelOf, quiet, type Speaker, speaker } from "./talk.ts"

export interface Change {
  readonly from: Name
  readonly to: Name
  /** After how many turns of three: with fewer the loop is open. */
  readonly after: number
  /** Whether something is asked then, or the next model goes on in the middle of the loop. */
  readonly asks: boolean
}

/** The changes between two protocols, the same one included: it is another model then. */
export const changes = (from: Name, to: Name): ReadonlyArray<Change> =>
  [1, 2, 3].flatMap((after) =>
    // nobody goes on behind an answer without a question
    (after === 3 ? [true] : [true, false]).map((asks) => ({ from, to, after, asks }))
  )

/** Makes the change, and says what is not as it has to be. */
export const problemsOf = Effect.fnUntraced(
  function*({ after, asks, from, to }: Change) {
    const { check, problems } = checking()
    const one = yield* speaker(from)
    const other = named(yield* speaker(to), "another")
    const agents = yield* agentsOf(one)

    const run = Effect.fnUntraced(function*(on: Speaker, turns: ReadonlyArray<Turn>, prompt: Prompt.Prompt) {
      on.says(turns)
      const [already, refused] = [on.server.requests.length, on.server.refusals.length]
      const end = yield* Effect.orDie(agents.run({ prompt, model: modelOf(on), limits: { turns: turns.length } }))
      check(`refused by ${on.name}`, on.server.refusals.slice(refused).map((it) => it.message), [])
      for (const { body } of on.server.requests.slice(already, already + 1)) {
        const sent = JSON.stringify(body)
        const has = (it: string) => sent.includes(JSON.stringify(it))
        const messages = prompt.content.filter((it) => it.role === "assistant")
        const own = messages.filter((it) => {
          const origin = Conversation.originOf(it)
          return origin?.provider === on.model.provider && origin.model === on.model.modelId
        })
        check("lost", own.flatMap(boundIn).filter((it) => !has(it)), [])
        check("foreign", messages.filter((it) => !own.includes(it)).flatMap(boundIn).filter(has), [])
      }
      return kept(end.history)
    })

    const begun = yield* run(one, turnsOf(from).slice(0, after), Prompt.make("Begin"))
    check(
      "bound",
      begun.content.flatMap((it) => it.role === "assistant" ? boundIn(it) : []).length >= bounds[from] * after,
      true
    )
    const changed = yield* run(other, turnsOf(`another ${to}`), asks ? Prompt.concat(begun, "Go on") : begun)
    yield* run(one, turnsOf(`${from} again`), Prompt.concat(changed, "Back to you"))
    return problems
  },
  Effect.scoped,
  quiet
)

// Utilities

const turnsOf = (who: string): ReadonlyArray<Turn> => [
  {
    reasoning: `${who} thinks once`,
    text: "I look.",
    calls: [{ name: "read", args: { path: "a" } }, { name: "write", args: { path: `${who} 1` } }]
  },
  { reasoning: `${who} thinks twice`, calls: [{ name: "write", args: { path: `${who} 2` } }] },
  { reasoning: `${who} thinks again`, text: "Done." }
]

/** How much of a turn a protocol binds to its model, at least. */
const bounds: Record<Name, number> = {
  "openai-chat": 0,
  "openai-responses": 2,
  anthropic: 2,
  google: 1,
  "openai-compatible": 1
}

const named = (speaker: Speaker, modelId: string): Speaker => ({
  ...speaker,
  model: wrapLanguageModel({ model: speaker.model, middleware: {}, modelId })
})

/** What belongs to the model that made a message: its thoughts, and what they are signed with. */
const boundIn = ({ content }: Prompt.AssistantMessage): ReadonlyArray<string> =>
  content.flatMap((part) => [
    ...part.type === "reasoning" && part.text !== "" ? [part.text] : [],
    ...Object.values(part.options).flatMap((options) => signaturesIn(options))
  ])

const signaturesIn = (options: unknown): ReadonlyArray<string> =>
  Object.entries(options as object).flatMap(([name, value]) =>
    typeof value === "string" && /signature|redactedData|encryptedContent/i.test(name) ? [value] : []
  )
