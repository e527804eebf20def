/**
 * Records of waves as version 1 wrote them. The file is never edited again: a release that cannot read it loses the
 * results of waves in an upgrade. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import * as ToolEvent from "../../src/core/facts/ToolEvent.ts"
import * as MemoryRows from "../../src/core/store/MemoryRows.ts"
import { ToolOutcome } from "../../src/core/vocabulary/ToolOutcome.ts"
import { toPrincipal } from "../../src/server/users/Principals.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as WaveText from "../../src/server/waves/WaveText.ts"

const lines = readFileSync(new URL("waves.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")
const [submission, ended, suspended, endedAt, turn] = lines as [string, string, string, string, string]

/** An end with kinds of events that were added later. */
const reviewed = readFileSync(new URL("waves-reviews.v1.jsonl", import.meta.url), "utf8").trimEnd()

const tagsOf = (members: ReadonlyArray<{ readonly fields: { readonly _tag: { readonly ast: unknown } } }>) =>
  members.map(({ fields }) => (fields._tag.ast as { readonly literal: string }).literal).sort()

const unique = (tags: ReadonlyArray<string>) => Array.from(new Set(tags)).sort()

const read = (text: string) => Result.getOrThrow(WaveText.ended.decode(text))

describe("waves of version 1", () => {
  it("are read, and written again as they were", () => {
    const again = <A>(codec: WaveText.Text<A>, text: string) =>
      assert.deepStrictEqual(JSON.parse(codec.encode(Result.getOrThrow(codec.decode(text)))), JSON.parse(text))
    again(WaveText.submitted, submission)
    again(WaveText.ended, ended)
    again(WaveText.ended, suspended)
    again(WaveText.ended, reviewed)
    again(WaveText.endedAt, endedAt)
    again(WaveText.keptTurn, turn)
  })

  it("have every event that is kept, and every outcome, which the end has again", () => {
    const { events } = read(ended)
    const all = [...events, ...read(suspended).events, ...read(reviewed).events]
    assert.deepStrictEqual(unique(all.map((it) => it._tag)), tagsOf(WaveText.LifecycleEvent.members))
    const end = events.at(-1)!
    const outcomes = end._tag === "ToolsEnd" ? end.executionResults : []
    assert.deepStrictEqual(unique(outcomes.map((it) => it._tag)), tagsOf(ToolOutcome.members))
    assert.deepStrictEqual(outcomes.map((it) => it.index), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  it("hold an outcome once, however large it is", () => {
    assert.lengthOf(ended.split("\"value\":\"long\""), 2)
  })

  it("are shown as clients see events today", () => {
    for (const event of [...read(ended).events, ...read(reviewed).events]) {
      const wire: unknown = JSON.parse(JSON.stringify(ToolEvent.toWire(event)))
      assert.deepStrictEqual(Schema.decodeUnknownSync(ToolEvent.Wire)(wire), wire as ToolEvent.Wire)
    }
  })

  it.effect("are told from other versions, each by itself", () =>
    Effect.gen(function*() {
      const rows = MemoryRows.make()
      const store = WaveStore.make(rows)
      const wave = Result.getOrThrow(WaveText.submitted.decode(submission))
      for (const name of ["a", "b"]) {
        const { format: _, message: __, ...of } = { ...wave, wave: name }
        const info = { ...of, status: "running", calls: 1, tools: ["read"] } as const
        yield* store.begin({ ...wave, wave: name }, info)
        yield* store.end({ ...wave, wave: name }, { ended: read(ended), info })
      }
      const key = `served.end.${WaveStore.idOf(wave, "a")}`
      const of = rows.of(toPrincipal(wave))
      assert.isTrue((yield* of.read({ keys: [key] })).has(key))
      yield* of.write([{ _tag: "Put", key, value: ended.replace("\"v\":1", "\"v\":7") }])
      const results = yield* Effect.forEach(["a", "b"], (name) => Effect.result(store.get(wave, name)))
      const [failed] = results.filter(Result.isFailure)
      assert.deepInclude(failed?.failure, {
        _tag: "WaveUnreadable",
        problem: "it has version 7, and this release reads 1"
      })
      assert.lengthOf(results.filter(Result.isSuccess), 1)
    }))
})
