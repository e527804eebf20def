import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Journal } from "../../../src/index.ts"
import * as JournalContract from "../../../src/testing/JournalContract.ts"
import * as JournalFile from "../../../src/tools/folders/JournalFile.ts"
import { program } from "../../support/programs.ts"

const { entry } = JournalContract

type Service = Journal.Journal["Service"]

/** Where the journal of a check is. */
class Path extends Context.Service<Path, string>()("test/tools/JournalFile/Path") {}

const somewhere = Layer.effect(
  Path,
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
    ),
    (folder) => join(folder, "in", "journal.ndjson")
  )
)

const journal = (options?: Partial<JournalFile.Options>) =>
  Effect.flatMap(Path, (path) => JournalFile.make({ path, ...options }))

const append = (journal: Service, ...entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

const read = (journal: Service, query: Journal.Query = {}) =>
  Effect.map(
    Stream.runCollect(journal.read(query)),
    (all) => all.map(({ entry: it, place }) => `${place} ${"key" in it ? it.key : it._tag}`)
  )

const run = <A, E>(effect: Effect.Effect<A, E, Path | Scope.Scope>) =>
  effect.pipe(Effect.scoped, Effect.provide(somewhere))

/** A process that writes until it is killed; ready once it has written. */
const writer = (path: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [
        ...program("test/support/journalWriter.ts"),
        path
      ], { stdio: ["ignore", "pipe", "inherit"] })
      await once(child.stdout, "data")
      return child
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

describe("the journal in a file", () => {
  const layer = (options?: Partial<Journal.Keeps>) =>
    Layer.effect(Journal.Journal, journal(options)).pipe(Layer.provideMerge(somewhere))
  for (const { check, name } of JournalContract.make({ layer, another: journal() })) it.live(name, () => check)

  for (
    const { check, name } of JournalContract.make({
      layer: (options) =>
        Layer.effect(Journal.Journal, journal({ ...options, maxBytes: 2_000 })).pipe(Layer.provideMerge(somewhere)),
      another: journal({ maxBytes: 2_000 })
    })
  ) it.live(`in many parts ${name}`, () => check)

  it.live("begins a new file when one is full, and reads all of them in their order", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const keys = Array.from({ length: 60 }, (_, index) => String(index))
      const written = yield* journal({ maxBytes: 3_000 })
      for (const key of keys) yield* append(written, entry("Arrived", { key }))
      const names = readdirSync(join(path, "..")).sort()
      assert.includeMembers(names, [
        "journal.ndjson.1",
        "journal.ndjson.2",
        "journal.ndjson.key",
        "journal.ndjson.lock"
      ])
      for (const it of names) assert.strictEqual(statSync(join(path, "..", it)).mode & 0o077, 0, it)
      const all = yield* read(written)
      assert.deepStrictEqual(all.map((it) => it.split(" ")[1]), keys)
      const places = all.map((it) => Number(it.split(" ")[0]))
      for (const after of [0, 1, 17, places[30]!, places[59]!]) {
        assert.deepStrictEqual(yield* read(written, { after }), all.filter((_, at) => places[at]! > after))
      }
    })))

  it.live("finds what is behind a place in a large file, and what is before it", () =>
    run(Effect.gen(function*() {
      const written = yield* journal()
      // some of them longer than what is read at once
      const args = (index: number) => ({ _tag: "Full" as const, value: "é".repeat(index % 50 === 7 ? 90_000 : 3_000) })
      const entries = Array.from(
        { length: 400 },
        (_, index) => entry("Arrived", { key: String(index), args: args(index) })
      )
      yield* append(written, ...entries)
      const all = yield* read(written)
      for (const index of [0, 1, 7, 199, 200, 398, 399]) {
        const place = Number(all[index]!.split(" ")[0])
        assert.deepStrictEqual(yield* read(written, { after: place }), all.slice(index + 1))
        assert.deepStrictEqual(
          yield* read(written, { before: place, order: "newest" }),
          all.slice(0, index).toReversed()
        )
      }
    })))

  it.live("reads no more of it than is taken, from the newest on", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const written = yield* journal({ maxBytes: 400_000 })
      const args = { _tag: "Full" as const, value: "x".repeat(3_000) }
      for (let at = 0; at < 300; at += 10) {
        yield* append(
          written,
          ...Array.from({ length: 10 }, (_, index) => entry("Arrived", { key: String(at + index), args }))
        )
      }
      // what would be found out if it were read
      writeFileSync(`${path}.1`, "no line of a journal\n")
      writeFileSync(path, readFileSync(path, "utf8").replace(/^.*\n/, (it) => `${"?".repeat(it.length - 1)}\n`))
      const lately = (query: Journal.Query) =>
        Effect.map(
          Stream.runCollect(Stream.take(written.read({ ...query, order: "newest" }), 3)),
          (all) => all.map(({ entry: it }) => "key" in it && it.key)
        )
      assert.deepStrictEqual(yield* lately({}), ["299", "298", "297"])
      const [newest] = yield* Stream.runCollect(Stream.take(written.read({ order: "newest" }), 1))
      assert.deepStrictEqual(yield* lately({ before: newest!.place - 1 }), ["297", "296", "295"])
      for (const order of ["oldest", "newest"] as const) {
        const error = yield* Effect.flip(Stream.runDrain(written.read({ order })))
        assert.include(String(error.cause), "is not a journal entry")
      }
    })))

  it.live("cuts off what a crash has torn, and no reader sees it meanwhile", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      yield* Effect.scoped(Effect.flatMap(journal(), (it) => append(it, entry("Arrived", { key: "1" }))))
      for (const torn of ["{\"place\":3,\"_tag\":\"Sett", "{\"place\":3,\"_ta\n", "\0\0\0\0", "{\"place\":3}\0\n{"]) {
        const before = readFileSync(path)
        appendFileSync(path, torn)
        const reader = yield* journal()
        // before anything is written, too: so whoever resumes finds what is there
        for (const query of [{}, { order: "newest" }, { keys: ["1", "3"] }, { isOpen: true, batch: "b" }] as const) {
          assert.deepStrictEqual(yield* read(reader, query), ["2 1"])
        }
        yield* Effect.scoped(Effect.flatMap(journal(), (it) => append(it, entry("Arrived", { key: "2" }))))
        assert.deepStrictEqual(yield* read(reader), ["2 1", "4 2"])
        writeFileSync(path, before)
        rmSync(`${path}.end`)
      }
    })), { tags: ["J6"] })

  it.live("says where an entry is not valid", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      yield* Effect.scoped(Effect.flatMap(journal(), (it) => append(it, entry("Arrived", { key: "1" }))))
      writeFileSync(path, readFileSync(path, "utf8").replace("\"wave\":1", "\"wave\":true"))
      const error = yield* Effect.flip(Effect.flatMap(journal(), read))
      assert.include(String("cause" in error ? error.cause : error), "the entry at 2 is not valid")
    })))

  it.live("is refused where its key is gone, or is none: what has run would run once more", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      yield* Effect.scoped(Effect.flatMap(journal({ maxBytes: 1 }), (it) => append(it, entry("Arrived", { key: "1" }))))
      const refusal = Effect.map(Effect.flip(journal()), (it) => String("cause" in it ? it.cause : it))
      writeFileSync(`${path}.key`, "")
      assert.include(yield* refusal, `${path}.key is not the key of a journal`)
      rmSync(`${path}.key`)
      assert.include(yield* refusal, `${path}.key is missing`)
      // nothing is left of it but a part that was full
      rmSync(path, { force: true })
      assert.include(yield* refusal, `${path}.key is missing`)
      rmSync(`${path}.1`)
      yield* Effect.flatMap(journal(), (it) => append(it, entry("Arrived", { key: "2" })))
    })))

  it.live("is refused where it was cut, emptied, removed or replaced", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const written = Effect.scoped(Effect.flatMap(journal({ maxBytes: 1_000 }), (it) =>
        Effect.gen(function*() {
          for (const key of ["1", "2", "3", "4", "5", "6"]) yield* append(it, entry("Arrived", { key }))
        })))
      yield* written
      const there = new Map(readdirSync(join(path, "..")).map((name) => [name, readFileSync(join(path, "..", name))]))
      const restore = () => {
        for (const [name, bytes] of there) writeFileSync(join(path, "..", name), bytes)
      }
      const whole = readFileSync(path)
      const refusal = Effect.map(Effect.flip(journal()), (it) => String("cause" in it ? it.cause : it))
      const attacks: Readonly<Record<string, () => void>> = {
        emptied: () => writeFileSync(path, ""),
        "cut at a line": () => writeFileSync(path, whole.subarray(0, whole.lastIndexOf(10, whole.length - 2) + 1)),
        "cut in a line": () => writeFileSync(path, whole.subarray(0, whole.length - 20)),
        removed: () => rmSync(path),
        replaced: () => writeFileSync(path, readFileSync(`${path}.1`)),
        "filled with zeros": () => writeFileSync(path, Buffer.alloc(whole.length))
      }
      for (const [what, attack] of Object.entries(attacks)) {
        attack()
        assert.include(yield* refusal, "was cut, emptied or replaced", what)
        restore()
      }
      // of a part that is full its index knows how long it was
      writeFileSync(`${path}.1`, readFileSync(`${path}.1`).subarray(0, 500))
      const cut = yield* Effect.flip(Effect.scoped(Effect.flatMap(journal(), (it) => it.claim(["1"], "p"))))
      assert.include(String("cause" in cut ? cut.cause : cut), `${path}.1 has 500 bytes, and had`)
      restore()
      // whoever knows what is missing goes on with what is left
      writeFileSync(path, "")
      rmSync(`${path}.end`)
      yield* written
      assert.deepStrictEqual((yield* Effect.flatMap(journal(), read)).slice(-6).map((it) => it.split(" ")[1]), [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6"
      ])
    })), { tags: ["J7"] })

  it.live("is not written any more once somebody cuts, empties or removes it", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      for (const attack of [() => writeFileSync(path, ""), () => rmSync(path)]) {
        yield* Effect.scoped(Effect.gen(function*() {
          const written = yield* journal()
          yield* append(written, entry("Arrived", { key: "1" }))
          const whole = readFileSync(path)
          attack()
          const first = yield* Effect.flip(append(written, entry("Settled", { key: "1" })))
          assert.match(String(first.cause), /somebody else has changed it|was removed or replaced/)
          const next = yield* Effect.flip(append(written, entry("Settled", { key: "1" })))
          assert.include(String(next.cause), "was cut, emptied or replaced")
          writeFileSync(path, whole)
          yield* append(written, entry("Settled", { key: "1" }))
          assert.deepStrictEqual((yield* read(written)).slice(-2).map((it) => it.split(" ")[1]), ["1", "1"])
        }))
      }
    })), { tags: ["J7"] })

  it.live("finds calls by the indexes of its parts, and reads nothing else", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const first = yield* Effect.scoped(Effect.gen(function*() {
        const written = yield* journal({ maxBytes: 4_000 })
        for (let key = 0; key < 40; key++) {
          yield* append(written, entry("Arrived", { key: String(key), batch: key % 2 === 0 ? "even" : "odd" }))
          if (key % 10 !== 3) yield* append(written, entry("Settled", { key: String(key) }))
        }
        return yield* read(written, { keys: ["0", "3", "17", "39", "none"] })
      }))
      assert.deepStrictEqual(first.map((it) => it.split(" ")[1]), ["0", "0", "3", "17", "17", "39", "39"])
      // what would be found out if it were read
      const spoil = () => {
        for (const name of readdirSync(join(path, "..")).filter((it) => /ndjson\.\d+$/.test(it))) {
          const at = join(path, "..", name)
          writeFileSync(
            at,
            readFileSync(at, "utf8").replace(/^.*"key":"(?:0|8|15|21|30)",.*$/gm, (it) => "?".repeat(it.length))
          )
        }
      }
      spoil()
      const keys = ["3", "17", "39", "none"]
      const expected = first.slice(2)
      const another = journal({ maxBytes: 4_000 })
      assert.deepStrictEqual(yield* Effect.scoped(Effect.flatMap(another, (it) => read(it, { keys }))), expected)
      assert.deepStrictEqual(
        yield* Effect.scoped(Effect.flatMap(another, (it) => read(it, { keys, order: "newest" }))),
        expected.toReversed()
      )
      const open = yield* Effect.scoped(Effect.flatMap(another, (it) => read(it, { isOpen: true, batch: "odd" })))
      assert.deepStrictEqual(open.map((it) => it.split(" ")[1]), ["3", "13", "23", "33"])
      assert.deepStrictEqual(yield* Effect.scoped(Effect.flatMap(another, (it) => it.claim(["3", "17"], "p"))), {
        _tag: "Claimed",
        ended: ["17"]
      })
      // an index that is missing or was damaged is made anew, by whoever writes
      const indexes = readdirSync(join(path, "..")).filter((it) => it.endsWith(".index"))
      assert.isAbove(indexes.length, 2)
      for (const [index, name] of indexes.entries()) {
        const at = join(path, "..", name)
        if (index % 2 === 0) rmSync(at)
        else writeFileSync(at, readFileSync(at).fill(1, 60))
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const again = yield* another
        assert.deepStrictEqual(yield* read(again, { keys }), expected)
        yield* append(again, entry("Arrived", { key: "new" }))
        assert.deepStrictEqual(yield* read(again, { keys: ["3", "new"] }), [
          expected[0]!,
          `${(yield* read(again, { keys: ["new"] }))[0]}`
        ])
      }))
      assert.includeMembers(readdirSync(join(path, "..")), indexes)
    })), { tags: ["J8"] })

  it.live("leaves out parts that are older than what is asked for", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const written = yield* journal({ maxBytes: 2_000 })
      for (let at = 1; at <= 30; at++) yield* append(written, entry("Arrived", { key: String(at), at }))
      writeFileSync(`${path}.1`, readFileSync(`${path}.1`, "utf8").replace(/[^\n]/g, "?"))
      const found = yield* read(written, { since: 25 })
      assert.deepStrictEqual(found.map((it) => it.split(" ")[1]), ["25", "26", "27", "28", "29", "30"])
      assert.include(String((yield* Effect.flip(read(written, { since: 1 }))).cause), "is not a journal entry")
    })))

  it.live("is written by one process, and by another once that one was killed", () =>
    run(Effect.gen(function*() {
      const path = yield* Path
      const child = yield* writer(path)
      const other = yield* journal()
      const error = yield* Effect.flip(append(other, entry("Arrived", { key: "mine" })))
      assert.include(String(error.cause), "another process writes this journal")
      assert.deepStrictEqual(yield* other.claim(["0"], "p"), { _tag: "Busy", keys: ["0"] })
      assert.isAbove((yield* read(other)).length, 0)
      const gone = once(child, "exit")
      child.kill("SIGKILL")
      yield* Effect.promise(() => gone)
      const before = yield* read(other)
      assert.deepStrictEqual(yield* other.claim(["0"], "p"), { _tag: "Claimed", ended: [] })
      yield* append(other, entry("Settled", { key: "0" }))
      assert.deepStrictEqual((yield* read(other)).slice(0, -1), before)
    })), { tags: ["J3"] })
})
