import { assert, describe, it } from "@effect/vitest"
import { keep, type KeptPast, type Mark, type Place, SharedPast } from "../../../src/core/rules/SharedPast.ts"
import { randomFrom } from "../../support/randomCase.ts"
import { seeds } from "../../support/seeds.ts"

const place = (at: number, serial = at, by = "here"): Place => ({ at, serial, by })
const mark = (tool: string, of: Place, index = 0): Mark => ({ tool, routes: [], place: of, index })

describe("what rules remember of a conversation", () => {
  it("has the last success in the order in which waves began, whichever ended first", () => {
    const past = new SharedPast()
    const [first, second] = [place(1), place(2)]
    past.begin(first)
    past.begin(second)
    past.note(mark("b", second))
    past.note(mark("a", first))
    assert.strictEqual(past.last?.tool, "b")
    assert.strictEqual(past.before(second, 0).last?.tool, "a")
    assert.isUndefined(past.before(first, 0).last)
  })

  it("takes over what the store knows of other executors, once", () => {
    const past = new SharedPast()
    const kept = { succeeded: ["a", "b"], last: mark("b", place(5, 1, "there")) }
    past.merge(kept, 10)
    past.merge(kept, 20)
    assert.deepStrictEqual(Array.from(past.succeeded), ["a", "b"])
    assert.strictEqual(past.last?.tool, "b")
    past.note(mark("c", place(4, 1)))
    assert.strictEqual(past.last?.tool, "b")
    past.note(mark("c", place(6, 2)))
    assert.strictEqual(past.last?.tool, "c")
    assert.strictEqual(past.readAt, 20)
  })

  it("goes by the numbers of waves in one executor, though its clock is set back", () => {
    const past = new SharedPast()
    past.note(mark("a", place(9, 1)))
    past.note(mark("b", place(3, 2)))
    assert.strictEqual(past.last?.tool, "b")
  })

  it("keeps every tool once and the last success, in whatever order successes arrive at the store", () => {
    const marks = [mark("a", place(1)), mark("b", place(2), 1), mark("a", place(2), 0), mark("c", place(1), 3)]
    const orders = [marks, marks.toReversed(), [marks[2]!, marks[0]!, marks[3]!, marks[1]!]]
    for (const order of orders) {
      const kept = order.reduce<KeptPast | undefined>(keep, undefined)!
      assert.strictEqual(kept.last?.tool, "b")
      assert.deepStrictEqual(kept.succeeded.toSorted(), ["a", "b", "c"])
    }
  })

  it("forgets what no call can look back at, and nothing else", () => {
    for (const seed of seeds(1_000)) {
      const { chance, int, pick } = randomFrom(seed)
      const past = new SharedPast()
      const all: Array<Mark> = []
      const live: Array<Place> = []
      let serial = 0
      for (let step = 0; step < 40; step++) {
        const [begins, ends] = [live.length === 0 || chance(0.3), chance(0.3)]
        if (begins) {
          const it = place(step, ++serial)
          live.push(it)
          past.begin(it)
        } else if (ends) past.end(live.splice(int(live.length), 1)[0]!)
        else {
          const it = pick(live)
          const success = mark(`t${step}`, it, int(20))
          if (all.some((other) => other.place === it && other.index === success.index)) continue
          all.push(success)
          past.note(success)
        }
        const seen = (of: Place, index: number) =>
          all.filter((it) => it.place.serial < of.serial || (it.place === of && it.index < index))
            .toSorted((a, b) => a.place.serial - b.place.serial || a.index - b.index).at(-1)?.tool
        for (const it of live) {
          const index = int(21)
          assert.strictEqual(past.before(it, index).last?.tool, seen(it, index), `seed ${seed}, step ${step}`)
        }
        assert.strictEqual(past.last?.tool, seen(place(99, serial + 1), 0), `seed ${seed}, step ${step}`)
      }
      for (const it of live) past.end(it)
      const { marks } = past as unknown as { readonly marks: ReadonlyArray<Mark> }
      assert.isAtMost(marks.length, 1, `seed ${seed}`)
    }
  })
})
