/** What every driver of `Checkpoints` keeps; each driver's own test runs it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { Checkpoints, FileChange } from "../../src/index.ts"

type Contents = Readonly<Record<string, FileChange.FileChange["before"]>>

/** A write over files of these contents. */
export const write = (
  before: Contents,
  options: Partial<Omit<Checkpoints.Write, "files">> = {}
): Checkpoints.Write => ({
  principal: "p",
  batch: "b",
  callId: "c",
  tool: "t",
  ...options,
  files: Object.entries(before).map(([path, content]) => ({ path, before: content, after: "after" }))
})

/** Keeps a write, and lets a millisecond go by. */
export const saveAt = (it: Checkpoints.Write): Effect.Effect<
  Checkpoints.Checkpoint,
  Checkpoints.CheckpointError,
  Checkpoints.Checkpoints
> => Effect.flatMap(Checkpoints.Checkpoints, ({ save }) => save(it)).pipe(Effect.tap(() => TestClock.adjust(1)))

export const idsOf = (checkpoints: ReadonlyArray<Checkpoints.Checkpoint>): ReadonlyArray<string> =>
  checkpoints.map(({ id }) => id)

export const suite = (
  name: string,
  layer: (options?: Checkpoints.Options) => Layer.Layer<Checkpoints.Checkpoints, unknown>
): void => {
  const check = (
    what: string,
    body: (store: {
      readonly save: (
        before: Contents,
        options?: Partial<Omit<Checkpoints.Write, "files">>
      ) => Effect.Effect<Checkpoints.Checkpoint, Checkpoints.CheckpointError>
      readonly ids: (principal?: string) => Effect.Effect<ReadonlyArray<string>, Checkpoints.CheckpointError>
      readonly bytes: (
        checkpoint: Checkpoints.Checkpoint,
        path: string
      ) => Effect.Effect<ReadonlyArray<number> | undefined, Checkpoints.CheckpointError>
      readonly reason: (
        checkpoint: Checkpoints.Checkpoint,
        path: string
      ) => Effect.Effect<Checkpoints.CheckpointError["reason"], unknown>
      readonly raw: Checkpoints.Checkpoints["Service"]
    }) => Effect.Effect<void, unknown>,
    options?: Checkpoints.Options
  ) =>
    it.effect(what, () =>
      Effect.gen(function*() {
        const raw = yield* Checkpoints.Checkpoints
        yield* body({
          raw,
          save: (before, options) =>
            Effect.provideService(saveAt(write(before, options)), Checkpoints.Checkpoints, raw),
          ids: (principal = "p") => Effect.map(raw.list(principal), idsOf),
          bytes: (checkpoint, path) =>
            Effect.map(raw.content(checkpoint, path), (it) => it === undefined ? undefined : [...it]),
          reason: (checkpoint, path) =>
            Effect.map(Effect.flip(raw.content(checkpoint, path)), (error) => {
              assert.strictEqual(error.id, checkpoint.id)
              return error.reason
            })
        })
      }).pipe(Effect.provide(layer(options), { local: true })))

  describe(`Checkpoints (${name})`, () => {
    check("has none at first", ({ ids }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* ids(), [])
      }))

    check("says whose call changed which files, when, and from what to what", ({ raw }) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("1 hour")
        const checkpoint = yield* raw.save({
          principal: "p",
          batch: "b",
          callId: "c",
          tool: "t",
          files: [
            { path: "new.txt", before: undefined, after: "é", kind: "protected" },
            { path: "gone.txt", before: Uint8Array.from([0xff, 0]), after: undefined }
          ]
        })
        const { id, ...rest } = checkpoint
        assert.notStrictEqual(id, "")
        assert.deepStrictEqual(rest, {
          principal: "p",
          batch: "b",
          callId: "c",
          tool: "t",
          at: 3_600_000,
          files: [
            { path: "new.txt", before: "", after: FileChange.hashOf("é"), size: 0, isKept: true },
            {
              path: "gone.txt",
              before: FileChange.hashOf(Uint8Array.from([0xff, 0])),
              after: "",
              size: 2,
              isKept: true
            }
          ]
        })
        assert.deepStrictEqual(yield* raw.list("p"), [checkpoint])
      }))

    check("gives back what was there before, byte for byte", ({ bytes, save }) =>
      Effect.gen(function*() {
        const binary = Uint8Array.from({ length: 256 }, (_, index) => index)
        const part = Buffer.from("before-middle-after").subarray(7, 13)
        const checkpoint = yield* save({ text: "\ufeffé\r\n", binary, part, empty: "", none: undefined })
        assert.deepStrictEqual(yield* bytes(checkpoint, "text"), [...Buffer.from("\ufeffé\r\n")])
        assert.deepStrictEqual(yield* bytes(checkpoint, "binary"), [...binary])
        assert.deepStrictEqual(yield* bytes(checkpoint, "part"), [...Buffer.from("middle")])
        assert.deepStrictEqual(yield* bytes(checkpoint, "empty"), [])
        assert.isUndefined(yield* bytes(checkpoint, "none"))
      }))

    check("keeps the contents of each checkpoint apart, also of one file", ({ bytes, save }) =>
      Effect.gen(function*() {
        const first = yield* save({ "a.txt": "1", "b.txt": "2" })
        const second = yield* save({ "b.txt": "3", "a.txt": "4" })
        assert.deepStrictEqual(yield* bytes(first, "a.txt"), [...Buffer.from("1")])
        assert.deepStrictEqual(yield* bytes(first, "b.txt"), [...Buffer.from("2")])
        assert.deepStrictEqual(yield* bytes(second, "a.txt"), [...Buffer.from("4")])
        assert.deepStrictEqual(yield* bytes(second, "b.txt"), [...Buffer.from("3")])
      }))

    check("lists those of a principal, newest first", ({ ids, save }) =>
      Effect.gen(function*() {
        const [a, b, c, d] = [
          yield* save({ "a.txt": "1" }),
          yield* save({ "a.txt": "2" }, { principal: "q" }),
          yield* save({ "a.txt": "3" }, { batch: "other", callId: "other", tool: "other" }),
          yield* save({ "a.txt": "4" })
        ]
        assert.deepStrictEqual(yield* ids("p"), [d.id, c.id, a.id])
        assert.deepStrictEqual(yield* ids("q"), [b.id])
        assert.deepStrictEqual(yield* ids(""), [])
      }))

    check("has ids that sort by age, over any time", ({ save }) =>
      Effect.gen(function*() {
        const ids: Array<string> = []
        for (const later of ["0 millis", "1 second", "10 hours", "365 days", "18250 days"] as const) {
          yield* TestClock.adjust(later)
          ids.push((yield* save({})).id)
        }
        assert.deepStrictEqual(ids.toSorted(), ids)
        assert.strictEqual(new Set(ids).size, ids.length)
      }))

    check("keeps a call that did not say what it changed", ({ ids, raw, save }) =>
      Effect.gen(function*() {
        const checkpoint = yield* save({})
        assert.deepStrictEqual(checkpoint.files, [])
        assert.deepStrictEqual(yield* ids(), [checkpoint.id])
        assert.isUndefined(yield* raw.content(checkpoint, "a.txt"))
      }))

    check("forgets one checkpoint, no other", ({ bytes, ids, raw, reason, save }) =>
      Effect.gen(function*() {
        const [a, b] = [yield* save({ "a.txt": "1" }), yield* save({ "a.txt": "2" })]
        yield* raw.forget(a)
        yield* raw.forget(a)
        assert.deepStrictEqual(yield* ids(), [b.id])
        assert.strictEqual(yield* reason(a, "a.txt"), "NotFound")
        assert.deepStrictEqual(yield* bytes(b, "a.txt"), [...Buffer.from("2")])
      }))

    check(
      "keeps the hash alone of a content over a quarter of its bytes",
      ({ bytes, ids, reason, save }) =>
        Effect.gen(function*() {
          const older = yield* save({ "a.txt": "1" })
          const checkpoint = yield* save({ "small.txt": "x".repeat(25), "large.txt": "x".repeat(26) })
          assert.deepStrictEqual(checkpoint.files.map(({ before, isKept, size }) => ({ before, isKept, size })), [
            { before: FileChange.hashOf("x".repeat(25)), size: 25, isKept: true },
            { before: FileChange.hashOf("x".repeat(26)), size: 26, isKept: false }
          ])
          assert.strictEqual(yield* reason(checkpoint, "large.txt"), "NotKept")
          assert.strictEqual((yield* bytes(checkpoint, "small.txt"))?.length, 25)
          assert.deepStrictEqual(yield* ids(), [checkpoint.id, older.id])
        }),
      { maxBytes: 100 }
    )

    check("keeps contents of 25,000,000 bytes by default, no larger ones", ({ save }) =>
      Effect.gen(function*() {
        const { files } = yield* save({
          small: new Uint8Array(25_000_000),
          large: new Uint8Array(25_000_001)
        })
        assert.deepStrictEqual(files.map(({ isKept }) => isKept), [true, false])
      }))

    check(
      "lets the oldest of a principal go over its bytes, and no other's",
      ({ bytes, ids, reason, save }) =>
        Effect.gen(function*() {
          const quarter = "x".repeat(25)
          const theirs = yield* save({ "a.txt": quarter }, { principal: "q" })
          const a = yield* save({ "a.txt": quarter })
          const b = yield* save({ "a.txt": quarter })
          const c = yield* save({ "a.txt": quarter, "b.txt": quarter })
          assert.deepStrictEqual([yield* ids("q"), yield* ids()], [[theirs.id], [c.id, b.id, a.id]])
          const d = yield* save({ "a.txt": "x" })
          assert.strictEqual(yield* reason(a, "a.txt"), "NotFound")
          assert.deepStrictEqual(yield* ids(), [d.id, c.id, b.id])
          // what was never kept makes nothing go
          const e = yield* save({ "a.txt": "x".repeat(1_000), "b.txt": "x".repeat(24) })
          assert.deepStrictEqual(yield* ids(), [e.id, d.id, c.id, b.id])
          const f = yield* save({ "a.txt": quarter, "b.txt": quarter })
          assert.deepStrictEqual(yield* ids(), [f.id, e.id, d.id])
          assert.strictEqual((yield* bytes(f, "b.txt"))?.length, 25)
          for (let n = 0; n < 11; n++) yield* save({ "a.txt": quarter })
          assert.deepStrictEqual(yield* ids("q"), [theirs.id])
          assert.strictEqual((yield* bytes(theirs, "a.txt"))?.length, 25)
        }),
      { maxBytes: 100 }
    )

    check(
      "makes a principal live with what others leave of all bytes",
      ({ bytes, ids, raw, reason, save }) =>
        Effect.gen(function*() {
          const most = { "a.txt": "x".repeat(25), "b.txt": "x".repeat(25), "c.txt": "x".repeat(20) }
          const theirs = yield* save(most, { principal: "q" })
          const a = yield* save({ "a.txt": "x".repeat(25) })
          const b = yield* save({ "a.txt": "x".repeat(20) })
          // its own give way first
          assert.deepStrictEqual([yield* ids("q"), yield* ids()], [[theirs.id], [b.id]])
          assert.strictEqual(yield* reason(a, "a.txt"), "NotFound")
          const c = yield* save({ "a.txt": "x".repeat(25), "b.txt": "x".repeat(6) })
          assert.deepStrictEqual(c.files.map(({ isKept }) => isKept), [true, false])
          assert.strictEqual(yield* reason(c, "b.txt"), "NotKept")
          assert.strictEqual((yield* bytes(theirs, "c.txt"))?.length, 20)
          // there is room again once they forget
          yield* raw.forget(theirs)
          assert.deepStrictEqual((yield* save(most)).files.map(({ isKept }) => isKept), [true, true, true])
        }),
      { maxBytes: 100, maxTotalBytes: 100 }
    )

    check(
      "has room again for what was forgotten",
      ({ ids, raw, save }) =>
        Effect.gen(function*() {
          const quarters = { "a.txt": "x".repeat(25), "b.txt": "x".repeat(25) }
          const [a, b] = [yield* save(quarters), yield* save(quarters)]
          yield* raw.forget(b)
          const c = yield* save(quarters)
          assert.deepStrictEqual(yield* ids(), [c.id, a.id])
        }),
      { maxBytes: 100 }
    )

    check(
      "forgets a checkpoint at its age, to the millisecond",
      ({ ids, reason, save }) =>
        Effect.gen(function*() {
          const a = yield* save({ "a.txt": "1" })
          yield* TestClock.adjust(499)
          const b = yield* save({ "a.txt": "2" })
          // `save` takes a millisecond
          yield* TestClock.adjust(498)
          assert.deepStrictEqual(yield* ids(), [b.id, a.id])
          yield* TestClock.adjust(1)
          assert.deepStrictEqual(yield* ids(), [b.id])
          assert.strictEqual(yield* reason(a, "a.txt"), "NotFound")
          yield* TestClock.adjust("1 hour")
          assert.deepStrictEqual(yield* ids(), [])
        }),
      { maxAge: "1 second" }
    )

    check("forgets a checkpoint after 7 days by default", ({ ids, save }) =>
      Effect.gen(function*() {
        const { id } = yield* save({ "a.txt": "1" })
        yield* TestClock.adjust(7 * 24 * 60 * 60 * 1_000 - 2)
        assert.deepStrictEqual(yield* ids(), [id])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* ids(), [])
      }))

    check(
      "remembers the newest 1,000 of a principal, those without files included",
      ({ ids, save }) =>
        Effect.gen(function*() {
          const saved: Array<string> = []
          for (let n = 0; n < 1_000; n++) saved.unshift((yield* save(n % 100 === 0 ? { "a.txt": "1" } : {})).id)
          assert.deepStrictEqual(yield* ids(), saved)
          // another principal's do not count
          const { id: other } = yield* save({}, { principal: "q" })
          assert.deepStrictEqual(yield* ids("q"), [other])
          assert.deepStrictEqual(yield* ids(), saved)
          saved.unshift((yield* save({})).id)
          assert.deepStrictEqual(yield* ids(), saved.slice(0, 1_000))
        })
    )

    check("keeps writes that happen at once", ({ bytes, ids, raw }) =>
      Effect.gen(function*() {
        const saved = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => write({ "a.txt": `${index}` })),
          raw.save,
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual((yield* ids()).toSorted(), idsOf(saved).toSorted())
        assert.strictEqual(new Set(idsOf(saved)).size, 20)
        for (const [index, one] of saved.entries()) {
          assert.deepStrictEqual(yield* bytes(one, "a.txt"), [...Buffer.from(`${index}`)])
        }
      }))

    check("lists what is kept in one instant as it was kept", ({ ids, raw }) =>
      Effect.gen(function*() {
        const made: Array<string> = []
        for (let n = 0; n < 6; n++) made.unshift((yield* raw.save(write({}))).id)
        assert.deepStrictEqual(yield* ids(), made)
      }))

    check("keeps contents that the caller goes on with", ({ bytes, raw }) =>
      Effect.gen(function*() {
        const content = Uint8Array.from([1, 2, 3])
        const checkpoint = yield* raw.save(write({ "a.txt": content }))
        content[0] = 9
        assert.deepStrictEqual(yield* bytes(checkpoint, "a.txt"), [1, 2, 3])
      }))

    check("takes principals and paths of any text", ({ bytes, ids, save }) =>
      Effect.gen(function*() {
        const names = ["constructor", "", "\n", "\0", "../x", "/etc/x", "0", "checkpoint.json", "🙂", "x".repeat(5_000)]
        const contents = Object.fromEntries(names.map((name) => [name, `in ${name}`]))
        for (const principal of names) {
          const checkpoint = yield* save(contents, { principal, batch: principal, callId: principal, tool: principal })
          for (const path of names) {
            assert.deepStrictEqual(yield* bytes(checkpoint, path), [...Buffer.from(`in ${path}`)])
          }
          assert.deepStrictEqual(yield* ids(principal), [checkpoint.id])
        }
      }))
  })
}
