/**
 * Random conversations that are compacted again and again, over every protocol: each request is one that a provider
 * takes, also after a stop at any message and by another model.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type { Compaction } from "../../src/agent/AgentExecutor.ts"
import * as CompactedHistory from "../../src/agent/CompactedHistory.ts"
import * as Conversation from "../../src/agent/Conversation.ts"
import { randomFrom, type SeededRandom } from "../../src/testing/SeededRandom.ts"
import { problemsOf } from "../support/Agents.ts"
import { type Name, names } from "../support/providers/providers.ts"
import type { Asked, Turn } from "../support/providers/script.ts"
import { sample, seeds, timeout } from "../support/seeds.ts"
import { agentsOf, kept, quiet, speaker } from "../support/talks/talk.ts"

const lorem = "lorem ipsum "

const searches: ReadonlySet<Name> = new Set(["anthropic", "openai-responses"])

const randomTurn = (random: SeededRandom, name: Name): Turn => ({
  ...random.chance(0.5) ? { reasoning: "Let me think." } : {},
  ...random.chance(0.7) ? { text: lorem.repeat(1 + random.int(60)) } : {},
  ...searches.has(name) && random.chance(0.2) ? { search: "fish" } : {},
  calls: Array.from({ length: 1 + random.int(3) }, () => ({
    name: random.pick(["read", "write", "fails", "picture", "blank", "unknown"]),
    args: { path: lorem.repeat(random.int(40)) }
  })),
  deltas: 400,
  usage: { input: random.pick([10, 500, 3_000, 9_000]), output: random.int(300) }
})

const randomCompaction = (random: SeededRandom): Compaction => ({
  window: 4_000,
  at: random.pick([0.1, 0.5, 0.9]),
  keepTurns: 1 + random.int(4),
  by: random.pick(["summary", "drop"])
})

/** A request for a summary; every fourth one comes to nothing. */
const summaries = () => {
  let asked = 0
  return ({ system }: Asked): Turn | undefined =>
    system.startsWith("You write the memory")
      ? { text: ++asked % 4 === 0 ? "" : "Request: all.\nDone: some.", usage: { input: 5, output: 5 } }
      : undefined
}

const conversations = names.flatMap((name) => Array.from({ length: 10 }, (_, seed) => [name, seed] as const))

describe("a conversation that is compacted", () => {
  it.live.each(sample(conversations))(
    "is one that its provider takes, at every turn: over %s, seed %i",
    ([name, seed]) =>
      Effect.gen(function*() {
        const random = randomFrom(seed)
        const own = yield* speaker(name)
        const agents = yield* agentsOf(own)
        const aside = summaries()
        let history = Prompt.make([{ role: "system" as const, content: "Stay kind." }])
        for (let operation = 0; operation < 4; operation++) {
          own.says(
            [...Array.from({ length: 1 + random.int(5) }, () => randomTurn(random, name)), { text: "Done." }],
            aside
          )
          const end = yield* Effect.orDie(agents.run({
            prompt: Prompt.concat(kept(history), `Request ${operation}`),
            system: "Be brief.",
            compaction: randomCompaction(random),
            limits: { turns: 20 }
          }))
          assert.deepStrictEqual(own.server.refusals.map((it) => it.message), [])
          assert.strictEqual(end.reason._tag, "Finished")
          // what went before is there in full
          const before = end.history.content.filter((it) => it.role === "user" && !CompactedHistory.isRecord(it))
          assert.strictEqual(before.length, operation + 1)
          // a host may stop behind any message
          const length = end.history.content.length
          history = random.chance(0.5)
            ? end.history
            : Prompt.fromMessages(end.history.content.slice(0, length - random.int(Math.min(4, length - 2))))
        }
        const other = yield* speaker(random.pick(names.filter((it) => it !== name)))
        other.says([{ text: "Gone on." }])
        const next = yield* agentsOf(other)
        const end = yield* Effect.orDie(next.run({ prompt: Prompt.concat(kept(history), "Go on") }))
        assert.deepStrictEqual(other.server.refusals.map((it) => it.message), [])
        assert.strictEqual(end.text, "Gone on.")
      }).pipe(Effect.scoped, quiet),
    { tags: ["AG20"], timeout }
  )
})

/** Any history that a host may have: answers behind other messages, calls of providers, blank messages. */
const randomHistory = (random: SeededRandom): ReadonlyArray<Prompt.Message> => {
  const messages: Array<Prompt.Message> = []
  let ids = 0
  const provided: Array<string> = []
  for (let turn = 0; turn < 3 + random.int(12); turn++) {
    while (random.chance(0.3)) {
      messages.push(
        random.chance(0.2)
          ? Prompt.systemMessage({ content: `System ${turn}` })
          : Prompt.userMessage({ content: [Prompt.textPart({ text: random.chance(0.1) ? " " : `User ${turn}` })] })
      )
    }
    const calls = Array.from({ length: random.int(3) }, () => `c${ids++}`)
    const ends = random.chance(0.5) ? provided.splice(0) : []
    const searched = random.chance(0.2) ? [`p${ids++}`] : []
    provided.push(...searched)
    const call = (id: string, providerExecuted: boolean) =>
      Prompt.toolCallPart({ id, name: "read", params: {}, providerExecuted })
    const result = (id: string, providerExecuted: boolean) =>
      Prompt.toolResultPart({ id, name: "read", isFailure: false, result: "text", providerExecuted })
    messages.push(Prompt.assistantMessage({
      content: [
        ...ends.map((id) => result(id, true)),
        Prompt.textPart({ text: `Assistant ${turn}` }),
        ...searched.map((id) => call(id, true)),
        ...calls.map((id) => call(id, false))
      ]
    }))
    const answered = turn > 1 || random.chance(0.9) ? calls : []
    if (answered.length > 0 && random.chance(0.2)) {
      messages.push(Prompt.userMessage({ content: [Prompt.textPart({ text: "Meanwhile" })] }))
    }
    for (const id of answered) messages.push(Prompt.toolMessage({ content: [result(id, false)] }))
  }
  if (random.chance(0.3)) messages.push(Prompt.userMessage({ content: [Prompt.textPart({ text: "At last" })] }))
  return messages
}

describe("a history that is cut wherever it can be", () => {
  it.each(seeds(400))(
    "keeps every call with its answer, and what must be kept, seed %i",
    { tags: ["AG20"] },
    (seed) => {
      const random = randomFrom(seed)
      let history = randomHistory(random)
      for (let times = 0; times < 3; times++) {
        const cuts = CompactedHistory.cutsIn(history)
        for (const from of cuts) {
          const record = CompactedHistory.record({ keeps: history.length - from, text: "Summary", origin: undefined })
          const view = CompactedHistory.view([...history, record])
          const prompt = Conversation.forModel(view, { provider: "p", model: "m" })
          assert.deepStrictEqual(problemsOf(prompt), [])
          const [shown, all] = [new Set(view), history.filter((it) => !CompactedHistory.isRecord(it))]
          const said = all.filter((it) =>
            it.role === "user" && it.content.some((part) => part.type !== "text" || part.text.trim() !== "")
          )
          const lastTurn = history.slice(history.findLastIndex((it) => it.role === "assistant"))
          const must = [
            ...all.filter((it) => it.role === "system"),
            ...said.slice(0, 1),
            ...said.slice(-1),
            ...lastTurn
          ]
          for (const message of must) {
            if (!CompactedHistory.isRecord(message)) assert.isTrue(shown.has(message), JSON.stringify(message))
          }
          // both halves of what a provider did are there, or none
          const ids = (type: "tool-call" | "tool-result") =>
            view.flatMap((it) =>
              it.role === "assistant"
                ? it.content.flatMap((part) => part.type === type && part.providerExecuted ? [part.id] : [])
                : []
            )
          for (const id of ids("tool-result")) assert.include(ids("tool-call"), id)
        }
        const from = cuts.length === 0 ? undefined : random.pick(cuts)
        if (from === undefined) return
        const record = CompactedHistory.record({
          keeps: history.length - from,
          text: `Summary ${times}`,
          origin: undefined
        })
        history = [...history, record, ...randomHistory(random)]
      }
    }
  )
})
