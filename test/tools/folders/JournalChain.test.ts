/** The hash chain of a journal in files: no byte of it changes unseen. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { appendFileSync, mkdtempSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Checkpoint } from "../../../src/core/store/JournalChain.ts"
import * as JournalContract from "../../../src/testing/JournalContract.ts"
import { randomFrom } from "../../../src/testing/SeededRandom.ts"
import * as JournalFile from "../../../src/tools/folders/JournalFile.ts"
import { seeds } from "../../support/seeds.ts"

const { entry } = JournalContract

const entries = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => ({ entry: entry("Arrived", { key: String(from + index) }) }))

const somewhere = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "journal.ndjson")
)

/** Writes entries, in groups of which the last is not durable, and closes the journal. */
const write = (path: string, count: number, options?: Partial<JournalFile.Options>) =>
  Effect.scoped(Effect.gen(function*() {
    const journal = yield* JournalFile.make({ path, ...options })
    for (let from = 0; from < count; from += 100) {
      yield* journal.append(entries(Math.min(100, count - from), from), { durable: from + 100 < count })
    }
  }))

const checkpointOf = Effect.fnUntraced(function*(path: string) {
  const { head, journal } = yield* JournalFile.verify(path)
  return { v: 1, journal, ...head!, at: 0 } satisfies Checkpoint
})

const test = (name: string, effect: Effect.Effect<void, unknown, Scope.Scope>, timeout?: number) =>
  it.live(name, () => Effect.scoped(effect), timeout)

describe("the hash chain of a journal in files", { tags: ["J12"] }, () => {
  test(
    "reveals every flipped bit, every removed line and every pair of lines that changed places",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 1_000)
      const bytes = readFileSync(path)
      const lines = bytes.toString().trimEnd().split("\n")
      const whole = yield* JournalFile.verify(path)
      assert.deepStrictEqual([whole.entries, whole.findings], [1_001, []])
      const isSeen = Effect.map(JournalFile.verify(path), ({ findings }) => findings.length > 0)
      const put = (lines: ReadonlyArray<string>) => writeFileSync(path, `${lines.join("\n")}\n`)
      for (const seed of seeds(60)) {
        const random = randomFrom(seed)
        const flipped = Buffer.from(bytes)
        // the last byte, too, which is a newline
        const at = seed === 0 ? bytes.length - 1 : random.int(bytes.length)
        flipped[at]! ^= 1 << random.int(8)
        writeFileSync(path, flipped)
        assert.isTrue(yield* isSeen, `bit of byte ${at}`)
        const one = seed === 0 ? lines.length - 1 : random.int(lines.length)
        put(lines.toSpliced(one, 1))
        assert.isTrue(yield* isSeen, `line ${one}`)
        const other = (one + 1 + random.int(lines.length - 1)) % lines.length
        put(lines.with(one, lines[other]!).with(other, lines[one]!))
        assert.isTrue(yield* isSeen, `lines ${one} and ${other}`)
      }
      writeFileSync(path, bytes)
      assert.isFalse(yield* isSeen)
    }),
    120_000
  )

  test(
    "says which entry was changed and which ones are missing, and nothing of those after them",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 20)
      const lines = readFileSync(path, "utf8").trimEnd().split("\n")
      const found = Effect.fnUntraced(function*(lines: ReadonlyArray<string>) {
        writeFileSync(path, `${lines.join("\n")}\n`)
        return (yield* JournalFile.verify(path)).findings.map(({ problem }) => problem)
      })
      assert.deepStrictEqual(yield* found(lines.with(4, lines[4]!.replace("\"tool\":\"t\"", "\"tool\":\"u\""))), [
        "entry 5 was changed, or an entry before it was replaced"
      ])
      assert.deepStrictEqual(yield* found(lines.toSpliced(4, 3)), ["entries 5 to 7 are missing"])
      assert.deepStrictEqual(yield* found(lines.slice(2)), ["entries 1 to 2 are missing"])
      assert.deepStrictEqual(yield* found(lines.slice(0, -2)), ["entries 20 to 21 are missing"])
      assert.deepStrictEqual(yield* found(lines.map((it) => it.replace(/"chain":"[^"]*",/, "")).with(20, lines[20]!)), [
        "entry 21 was changed, or an entry before it was replaced"
      ])
    })
  )

  test(
    "goes on over parts, restarts and a line that a crash has torn",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 300, { maxBytes: 5_000 })
      yield* write(path, 300, { maxBytes: 5_000 })
      appendFileSync(path, "{\"place\":700,\"chain\":\"torn")
      assert.deepStrictEqual((yield* JournalFile.verify(path)).findings, [])
      yield* write(path, 10)
      const { entries, findings, head } = yield* JournalFile.verify(path)
      assert.deepStrictEqual(findings, [])
      assert.strictEqual(head?.place, entries)
      unlinkSync(`${path}.2`)
      assert.match((yield* JournalFile.verify(path)).findings[0]!.problem, /^entries \d+ to \d+ are missing$/)
    })
  )

  test(
    "counts what an earlier version wrote without hashes, and protects what follows",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 10)
      writeFileSync(path, readFileSync(path, "utf8").replaceAll(/"chain":"[^"]*",/g, ""))
      unlinkSync(`${path}.end`)
      yield* write(path, 10)
      const verified = yield* JournalFile.verify(path)
      assert.deepStrictEqual([verified.unchained, verified.entries, verified.findings], [11, 11, []])
    })
  )

  test(
    "does not match a checkpoint once all of it was written again, and matches it after more entries",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 30)
      const checkpoint = yield* checkpointOf(path)
      yield* write(path, 10)
      assert.deepStrictEqual((yield* JournalFile.verify(path, checkpoint)).findings, [])
      // the key stays, so it is the same journal; one call of it is another one
      unlinkSync(path)
      unlinkSync(`${path}.end`)
      yield* Effect.scoped(Effect.gen(function*() {
        const journal = yield* JournalFile.make({ path })
        const forged = entries(41).with(3, { entry: entry("Arrived", { key: "forged" }) })
        yield* journal.append(forged, { durable: true })
      }))
      assert.deepStrictEqual((yield* JournalFile.verify(path)).findings, [])
      assert.deepStrictEqual((yield* JournalFile.verify(path, checkpoint)).findings.map(({ problem }) => problem), [
        `the entries up to ${checkpoint.place} are not those of the checkpoint: the journal was rewritten`
      ])
    })
  )

  test(
    "begins after a checkpoint if the parts before it were moved elsewhere",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 160, { maxBytes: 1 })
      const first = readFileSync(`${path}.1`, "utf8").trimEnd().split("\n").at(-1)!
      const [, place, chain] = /^\{"place":(\d+),"chain":"([^"]+)"/.exec(first)!
      const checkpoint = { v: 1, journal: "", place: Number(place), chain: chain!, at: 0 } as const
      unlinkSync(`${path}.1`)
      assert.lengthOf((yield* JournalFile.verify(path)).findings, 1)
      // whoever knows the checkpoint can write lines that follow it
      assert.lengthOf((yield* JournalFile.verify(path, checkpoint)).findings, 1)
      const verify = JournalFile.verify(path, checkpoint, { earlierElsewhere: true })
      const { compared, findings } = yield* verify
      assert.deepStrictEqual([compared, findings], ["follows", []])
      unlinkSync(`${path}.2`)
      assert.lengthOf((yield* verify).findings, 1)
    })
  )

  test(
    "never matches a checkpoint if it is empty, and reveals that all hashes were removed",
    Effect.gen(function*() {
      const path = yield* somewhere
      yield* write(path, 10)
      const checkpoint = yield* checkpointOf(path)
      const text = readFileSync(path, "utf8")
      assert.strictEqual((yield* JournalFile.verify(path, checkpoint)).compared, "matches")
      writeFileSync(path, text.replaceAll(/"chain":"[^"]*",/g, ""))
      assert.deepStrictEqual((yield* JournalFile.verify(path)).findings.map(({ problem }) => problem), [
        "entry 11 is not the one that was on the disk"
      ])
      writeFileSync(path, "")
      unlinkSync(`${path}.end`)
      for (const earlierElsewhere of [false, true]) {
        const { compared, findings } = yield* JournalFile.verify(path, checkpoint, { earlierElsewhere })
        assert.deepStrictEqual([compared, findings.length], ["not compared", 1])
      }
    })
  )
})
