/** A conversation that is handed over whole, as the prompt of the next operation. */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import { Journal } from "../../src/index.ts"
import * as Agents from "../support/Agents.ts"

/** A call that is written, and the conversation as it was before its answer. */
const broken = (env: Agents.Env) =>
  Effect.gen(function*() {
    const { end } = yield* Agents.events(env, { prompt: "Write" })
    const at = end.history.content.findIndex((it) => it.role === "tool")
    return Prompt.fromMessages(end.history.content.slice(0, at))
  })

const script = [{ calls: [{ id: "call_0", name: "write", params: { path: "a" } }] }, { text: "Done." }, {
  text: "Gone on."
}]

const counting = () => {
  const ran: Array<unknown> = []
  return {
    ran,
    tools: {
      write: { class: "SerialMut", handler: (it: unknown) => Effect.sync(() => (ran.push(it), "written")) }
    } as const
  }
}

describe("a history as a prompt", () => {
  it.effect("has its open calls resumed from the journal, before what is asked next", () => {
    const { ran, tools } = counting()
    return Effect.gen(function*() {
      const journal = yield* Journal.Journal
      yield* Agents.run(tools, script, (env) =>
        Effect.gen(function*() {
          const { end } = yield* Agents.events(env, { prompt: Prompt.concat(yield* broken(env), "Go on") })
          assert.deepStrictEqual(Agents.words(end.history), [
            "user: Write",
            "calls write call_0",
            "result call_0: written",
            "user: Go on",
            "assistant: Gone on."
          ])
          assert.strictEqual(ran.length, 1)
        }), { journal })
    }).pipe(Effect.provide(Journal.layerMemory()))
  })

  it.effect("runs none of its open calls that were cut off, journal or not", () => {
    const { ran, tools } = counting()
    const cutOff = [{ ...script[0]!, finish: "length" as const }, ...script.slice(1)]
    return Effect.gen(function*() {
      const journal = yield* Journal.Journal
      yield* Agents.run(tools, cutOff, (env) =>
        Effect.gen(function*() {
          const { end } = yield* Agents.events(env, { prompt: Prompt.concat(yield* broken(env), "Go on") })
          assert.match(Agents.words(end.history)[2]!, /^error call_0: This call has no result/)
          assert.strictEqual(ran.length, 0)
        }), { journal })
    }).pipe(Effect.provide(Journal.layerMemory()))
  }, { tags: ["AG1"] })

  it.effect("has its open calls answered with that nobody knows, where there is no journal", () => {
    const { ran, tools } = counting()
    return Agents.run(tools, script, (env) =>
      Effect.gen(function*() {
        const { end } = yield* Agents.events(env, { prompt: Prompt.concat(yield* broken(env), "Go on") })
        const said = Agents.words(end.history)
        assert.match(said[2]!, /^error call_0: This call has no result/)
        assert.deepStrictEqual(said.slice(3), ["user: Go on", "assistant: Gone on."])
        assert.strictEqual(ran.length, 1)
      }))
  })

  it.effect("has ids that no later call is given, whatever its model says", () =>
    Agents.run({ read: () => Effect.succeed("text") }, [
      { calls: [{ id: "", name: "read", params: { n: 1 } }, { id: "call_0", name: "read", params: { n: 2 } }] },
      { text: "Done." },
      { calls: [{ id: "", name: "read", params: { n: 3 } }, { id: "call_0", name: "read", params: { n: 4 } }] },
      { text: "Gone on." }
    ], (env) =>
      Effect.gen(function*() {
        const first = yield* Agents.events(env, { prompt: "Read" })
        const { end } = yield* Agents.events(env, { prompt: Prompt.concat(first.end.history, "Go on") })
        const ids = end.history.content.flatMap((it) =>
          it.role === "assistant" ? it.content.flatMap((part) => part.type === "tool-call" ? [part.id] : []) : []
        )
        assert.strictEqual(new Set(ids).size, 4, ids.join(" "))
      })))
})
