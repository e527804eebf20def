/**
 * Journal entries as version 1 wrote them. The file is never edited again: a release that cannot read it cannot resume
 * calls after an upgrade. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { JournalEntry } from "../../src/core/store/JournalEntry.ts"
import * as JournalText from "../../src/core/store/JournalText.ts"
import { ToolOutcome } from "../../src/core/vocabulary/ToolOutcome.ts"

/** Kinds of entries that were added later have files of their own. */
const files = [
  "journal.v1.jsonl",
  "journal-reviews.v1.jsonl",
  "journal-words.v1.jsonl",
  "journal-ordinals.v1.jsonl",
  "journal-approvers.v1.jsonl",
  "journal-patterns.v1.jsonl",
  "journal-rules.v1.jsonl"
]

const lines = files.flatMap((it) => readFileSync(new URL(it, import.meta.url), "utf8").trimEnd().split("\n"))

const tagsOf = (members: ReadonlyArray<{ readonly fields: { readonly _tag: { readonly ast: unknown } } }>) =>
  members.map(({ fields }) => (fields._tag.ast as { readonly literal: string }).literal).sort()

const unique = (tags: ReadonlyArray<string>) => Array.from(new Set(tags)).sort()

describe("a journal of version 1", () => {
  const entries = lines.map((line) => Result.getOrThrow(JournalText.decode(line)))

  for (const [index, line] of lines.entries()) {
    const { _tag } = entries[index]!
    it(`gives its ${_tag} in line ${index + 1} again`, () => {
      assert.deepStrictEqual(JSON.parse(JournalText.encode(entries[index]!)), JSON.parse(line))
    })
  }

  it("has an entry of every kind, and every outcome", () => {
    assert.deepStrictEqual(unique(entries.map((it) => it._tag)), tagsOf(JournalEntry.members))
    const outcomes = entries.flatMap((it) => it._tag === "Settled" ? [it.outcome._tag] : [])
    assert.deepStrictEqual(unique(outcomes), tagsOf(ToolOutcome.members))
  })

  it("is told from other versions", () => {
    const problemOf = (text: string) => {
      const read = JournalText.decode(text)
      return Result.isFailure(read) ? read.failure.message : "none"
    }
    assert.strictEqual(problemOf(lines[0]!.replace("\"v\":1", "\"v\":2")), "it has version 2, and this release reads 1")
    assert.strictEqual(problemOf(lines[0]!.replace("\"v\":1,", "")), "it has version none, and this release reads 1")
    assert.strictEqual(problemOf("[]"), "it has version none, and this release reads 1")
    assert.strictEqual(problemOf("1"), "it is not a JSON object")
    assert.strictEqual(problemOf("{"), "it is not JSON")
  })
})
