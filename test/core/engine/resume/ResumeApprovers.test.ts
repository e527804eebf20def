/** Approvals of several people hold over a restart, as far as they were given, for as long as the same people approve. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import type { Approvers } from "../../../../src/core/vocabulary/Approvers.ts"
import { Journal, ToolAnnotations } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, tags, type ToolSpec } from "../../../support/Harness.ts"

type People = Approvals.Approvals["Service"]

const wave = [call("1", "pay", { amount: 500 })]

const once = { _tag: "ApproveOnce" } as const

/** A life over what is on record: what was pending in it, the outcomes if there are any, and the record. */
const live = Effect.fnUntraced(function*(
  approvers: Approvers,
  entries: ReadonlyArray<Journal.JournalEntry>,
  act: (people: People) => Effect.Effect<unknown, unknown>,
  spec: Partial<ToolSpec> = {}
) {
  const ran: Array<unknown> = []
  const people = yield* Approvals.make({ timeout: "1 hour" })
  const journal = Context.get(yield* Layer.build(Layer.fresh(Journal.layerMemory({ entries }))), Journal.Journal)
  const pay: ToolSpec = { class: "SerialMut", handler: (it) => Effect.sync(() => ran.push(it)), ...spec }
  const env = yield* open({ pay }, {
    policy: { ask: [{ tool: "pay", approvers }] },
    principal: "bob/home",
    approvals: people,
    journal
  })
  let outcomes: ReadonlyArray<string> | undefined
  yield* Effect.forkScoped(Effect.scoped(Effect.gen(function*() {
    const process = yield* env.executor.process({ batch: "b" })
    outcomes = tags(yield* entries.length === 0 ? process.executeWave(wave) : process.resume(wave))
  })))
  yield* Effect.sleep("1 second")
  const pending = yield* people.list
  yield* act(people)
  yield* Effect.sleep("1 second")
  const all = yield* Stream.runCollect(journal.read({}))
  return { pending, outcomes, ran, entries: all.map(({ entry }) => entry) }
})

const says = (person: string, answer: Approvals.Answer = once) => (people: People) =>
  Effect.flatMap(people.list, ([it]) => people.answer(it!.id, answer, undefined, person))

const nothing = () => Effect.void

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, never>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.suspend(program), { limit: "1 day" }), options)

const life = (...of: Parameters<typeof live>) => Effect.scoped(live(...of))

describe("after a crash", () => {
  test("the first of two approvals counts, under the same id", () =>
    Effect.gen(function*() {
      const before = yield* life({ count: 2 }, [], says("ada"))
      assert.isUndefined(before.outcomes)
      const again = yield* life({ count: 2 }, before.entries, nothing)
      assert.strictEqual(again.pending[0]!.id, before.pending[0]!.id)
      assert.deepStrictEqual(again.pending[0]!.approvals?.map((it) => it.person), ["ada"])
      const last = yield* life({ count: 2 }, again.entries, says("cy", { ...once, note: "Fine." }))
      assert.deepStrictEqual(last.outcomes, ["Succeeded"])
      assert.lengthOf(last.ran, 1)
      assert.deepStrictEqual(
        last.entries.flatMap((it) => it._tag === "ApprovedBy" ? [it.approval.person] : []),
        ["ada", "cy"]
      )
      const answered = last.entries.find((it) => it._tag === "Answered")
      assert.deepInclude(answered, { answer: "ApproveOnce", by: "user", person: "cy", note: "Fine." })
    }), { tags: ["AP19"] })

  test(
    "neither one approval nor all of them count for other approvers than those who were asked",
    () =>
      Effect.gen(function*() {
        const before = yield* life({ count: 2 }, [], says("ada"))
        const other = yield* life({ people: ["ada"], count: 2 }, before.entries, nothing)
        assert.isUndefined(other.pending[0]!.approvals)
        // both have approved, and the process stops before the call starts
        const both = before.entries.concat(
          (yield* life({ count: 2 }, before.entries, says("cy"))).entries.filter((it) =>
            it._tag === "ApprovedBy" && it.approval.person === "cy" || it._tag === "Answered"
          )
        )
        const same = yield* life({ count: 2 }, both, nothing)
        assert.deepStrictEqual([same.pending, same.outcomes], [[], ["Succeeded"]])
        const stricter = yield* life({ count: 3 }, both, nothing)
        assert.lengthOf(stricter.pending, 1)
        assert.isUndefined(stricter.outcomes)
        assert.deepStrictEqual(stricter.ran, [])
      }),
    { tags: ["AP19"] }
  )

  test("an approval with data is given again: the record has no data", () => {
    const spec: Partial<ToolSpec> = {
      annotate: (tool) => tool.annotate(ToolAnnotations.Form, { type: "object", required: ["code"] })
    }
    return Effect.gen(function*() {
      const before = yield* life({ count: 2 }, [], says("ada", { ...once, data: { code: "hush" } }), spec)
      assert.notInclude(JSON.stringify(before.entries), "hush")
      const again = yield* life({ count: 2 }, before.entries, nothing, spec)
      assert.deepStrictEqual(again.pending[0]!.approvals, [])
    })
  }, { tags: ["AP22"] })
})
