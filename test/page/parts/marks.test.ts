import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { marksOf, type Segment } from "../../../src/page/parts/marks.ts"
import { compare } from "../../../src/page/parts/sequences.ts"

const side = (segments: ReadonlyArray<Segment>, not: "added" | "removed"): string =>
  segments.filter(({ kind }) => kind !== not).map(({ text }) => text).join("")

const shown = (before: string, after: string): string =>
  marksOf(before, after).segments.map(({ kind, text }) =>
    kind === "same" ? text : kind === "added" ? `{+${text}+}` : `[-${text}-]`
  )
    .join("")

const Few = Schema.Array(Schema.Literals(["a", "b", "c", "d", "e"]))
const Words = Schema.Array(
  Schema.Literals([
    "foo",
    "bar",
    " ",
    "  ",
    "\t",
    "e\u0301",
    "\u0301",
    "é",
    "😀",
    "\ud83d",
    "\ude00",
    "\ude01",
    "(",
    "\r",
    "3".repeat(70)
  ])
)

describe("compare", () => {
  /** Takes the one before to the one after by what was found. */
  const applies = <A extends string | number>(before: ReadonlyArray<A>, after: ReadonlyArray<A>) => {
    const compared = compare(before, after)
    const made: Array<A> = []
    let at = 0
    let there = 0
    for (const it of compared.stretches) {
      if (it.kind === "same") {
        for (let of = 0; of < it.count; of++) assert.strictEqual(before[at + of], after[there + of])
        for (const item of before.slice(at, at + it.count)) made.push(item)
        at += it.count
        there += it.count
      } else {
        for (const item of after.slice(there, there + it.added)) made.push(item)
        at += it.removed
        there += it.added
      }
    }
    assert.deepStrictEqual(made, [...after])
    assert.strictEqual(at, before.length)
    return compared
  }

  it.prop("gives the one after from the one before", [Few, Few], ([before, after]) => void applies(before, after))

  it("finds what stands still between large parts that do not", () => {
    const part = (name: string) => Array.from({ length: 700 }, (_, at) => `${name} ${at * 31 % 17}`)
    const before = [...part("a"), "still", ...part("b"), "here", ...part("c")]
    const after = [...part("x"), "still", ...part("y"), "here", ...part("z")]
    assert.strictEqual(applies(before, after).stretches.filter(({ kind }) => kind === "same").length, 2)
  })

  it("finds what was put in and taken out of a long one", () => {
    const before = Array.from({ length: 50_000 }, (_, at) => at % 97 * 1000 + at % 89)
    const after = before.flatMap((it, at) => at % 1000 === 500 ? [it, -1] : at % 1000 === 700 ? [] : [it])
    const { isCoarse, stretches } = applies(before, after)
    assert.isFalse(isCoarse)
    assert.strictEqual(stretches.filter(({ kind }) => kind === "replaced").length, 100)
  })

  it("comes to an end with what has nothing in common, and says that it is coarse", () => {
    const dice = (seed: number) =>
      Array.from({ length: 300_000 }, (_, at) => (at * 7919 * seed + (at * at) % 104_729) % 50)
    const { isCoarse } = applies(dice(3), dice(17))
    assert.isTrue(isCoarse)
  })
})

describe("marksOf", () => {
  it.prop("holds all of both lines, in order", [Words, Words], ([before, after]) => {
    const { segments } = marksOf(before.join(""), after.join(""))
    assert.strictEqual(side(segments, "added"), before.join(""))
    assert.strictEqual(side(segments, "removed"), after.join(""))
    assert.isTrue(segments.every(({ text }) => text !== ""))
  })

  it("marks words, and letters at their edges", () => {
    assert.strictEqual(
      shown("const total = price * 2", "const sum = price * 3"),
      "const [-total-]{+sum+} = price * [-2-]{+3+}"
    )
    assert.strictEqual(shown("the food is here", "the foot is here"), "the foo[-d-]{+t+} is here")
    assert.strictEqual(shown("rm -rf ./build", "rm -rf /build"), "rm -rf [-.-]/build")
  })

  it("takes no character apart", () => {
    assert.strictEqual(shown("x 😀 y", "x 😁 y"), "x [-😀-]{+😁+} y")
    assert.strictEqual(shown("caf\u0065 ok then", "caf\u0065\u0301 ok then"), "caf[-e-]{+e\u0301+} ok then")
    assert.strictEqual(shown("ab e\u0301 cd", "ab a\u0301 cd"), "ab [-e\u0301-]{+a\u0301+} cd")
  })

  it("marks lines with next to nothing in common as a whole", () => {
    assert.strictEqual(shown("import fs from node", "return 42;"), "[-import fs from node-]{+return 42;+}")
  })

  it("finds every change in a line of a megabyte", () => {
    const line = (mark: string) =>
      Array.from({ length: 60_000 }, (_, at) => at % 6_000 === 3_000 ? mark : `k${at % 700}:"v"`).join(",")
    const { isCoarse, segments } = marksOf(line("old"), line("new"))
    assert.isFalse(isCoarse)
    assert.strictEqual(segments.filter(({ kind }) => kind === "added").length, 10)
  })
})
