/** Checks for drivers of `Checkpoints`. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as assert from "node:assert/strict"
import * as Checkpoints from "../core/output/Checkpoints.ts"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Contract from "./Contract.ts"

/** Makes the checks of a driver. */
export const make = <Also = never, Needs = never>(
  driver: Contract.Driver<Checkpoints.Checkpoints, Checkpoints.Options, Also, Needs>
): ReadonlyArray<Contract.Check<Needs>> => Contract.checks(Checkpoints.Checkpoints, driver, all)

type Store = Checkpoints.Checkpoints["Service"]

type Contents = Readonly<Record<string, FileChange.FileChange["before"]>>

type Of = Partial<Omit<Checkpoints.Write, "files">>

const write = (before: Contents, of: Of = {}): Checkpoints.Write => ({
  principal: "p",
  batch: "b",
  callId: "c",
  tool: "t",
  ...of,
  files: Object.entries(before).map(([path, content]) => ({ path, before: content, after: "after" }))
})

const utf8 = new TextEncoder()

const tools = (store: Store, later: Contract.Later) => ({
  store,
  later,
  /** Saves a write over files with these contents. */
  save: (before: Contents, of?: Of) => store.save(write(before, of)),
  ids: (principal = "p") => Effect.map(store.list(principal), (all) => all.map(({ id }) => id)),
  /** Expects a content, byte for byte. */
  holds: (checkpoint: Checkpoints.Checkpoint, path: string, content: string | Uint8Array | undefined) =>
    Effect.map(store.content(checkpoint, path), (it) => {
      const expected = typeof content === "string" ? utf8.encode(content) : content
      assert.deepEqual(it === undefined ? undefined : Array.from(it), expected && Array.from(expected), path)
    }),
  /** Why a content is unavailable. */
  reason: (checkpoint: Checkpoints.Checkpoint, path: string) =>
    Effect.map(Effect.flip(store.content(checkpoint, path)), (error) => {
      assert.equal(error.id, checkpoint.id)
      return error.reason
    })
})

const quarter = "x".repeat(25)

const check = (
  name: string,
  body: (of: ReturnType<typeof tools>) => Contract.Body,
  options?: Checkpoints.Options
): Contract.Statement<Store, Checkpoints.Options> =>
  Contract.statement(name, (store, later) => body(tools(store, later)), options)

const all: ReadonlyArray<Contract.Statement<Store, Checkpoints.Options>> = [
  check("has none at first", function*({ ids, store }) {
    assert.deepEqual(yield* ids(), [])
    assert.equal(yield* store.prune, 0)
  }),
  check("says whose call changed which files, when, and from what to what", function*({ later, store }) {
    yield* later(3_600_000)
    const before = yield* Clock.currentTimeMillis
    const binary = Uint8Array.from([0xff, 0])
    const checkpoint = yield* store.save({
      principal: "p",
      batch: "b",
      callId: "c",
      tool: "t",
      files: [
        { path: "new.txt", before: undefined, after: "é", kind: "protected" },
        { path: "gone.txt", before: binary, after: undefined }
      ]
    })
    const { at, id, ...rest } = checkpoint
    assert.notEqual(id, "")
    assert.equal(at, before)
    assert.deepEqual(rest, {
      principal: "p",
      batch: "b",
      callId: "c",
      tool: "t",
      files: [
        { path: "new.txt", before: "", after: FileChange.hashOf("é"), size: 0, isKept: true },
        { path: "gone.txt", before: FileChange.hashOf(binary), after: "", size: 2, isKept: true }
      ]
    })
    assert.deepEqual(yield* store.list("p"), [checkpoint])
  }),
  check("gives back what was there before, byte for byte", function*({ holds, save }) {
    const text = "\ufeffé\r\n"
    const binary = Uint8Array.from({ length: 256 }, (_, index) => index)
    const part = utf8.encode("before-middle-after").subarray(7, 13)
    const large = Uint8Array.from({ length: 3_000_000 }, (_, index) => index % 251)
    const checkpoint = yield* save({ text, binary, part, large, empty: "", none: undefined })
    yield* holds(checkpoint, "text", text)
    yield* holds(checkpoint, "binary", binary)
    yield* holds(checkpoint, "part", "middle")
    yield* holds(checkpoint, "empty", "")
    yield* holds(checkpoint, "none", undefined)
    yield* holds(checkpoint, "large", large)
  }),
  check("keeps the contents of each checkpoint apart, also of one file", function*({ holds, save }) {
    const first = yield* save({ "a.txt": "1", "b.txt": "2" })
    const second = yield* save({ "b.txt": "3", "a.txt": "4" })
    yield* holds(first, "a.txt", "1")
    yield* holds(first, "b.txt", "2")
    yield* holds(second, "a.txt", "4")
    yield* holds(second, "b.txt", "3")
  }),
  check("lists those of a principal, newest first, also of one instant", function*({ ids, later, save }) {
    const a = yield* save({ "a.txt": "1" })
    const b = yield* save({ "a.txt": "2" }, { principal: "q" })
    const c = yield* save({ "a.txt": "3" }, { batch: "other", callId: "other", tool: "other" })
    yield* later(1)
    const d = yield* save({ "a.txt": "4" })
    assert.deepEqual(yield* ids("p"), [d.id, c.id, a.id])
    assert.deepEqual(yield* ids("q"), [b.id])
    assert.deepEqual(yield* ids(""), [])
  }),
  check("has ids that sort by age, over any time", function*({ later, save }) {
    const ids: Array<string> = []
    for (const millis of [0, 1_000, 36_000_000, 31_536_000_000, 1_576_800_000_000]) {
      yield* later(millis)
      ids.push((yield* save({})).id)
    }
    assert.deepEqual(ids.toSorted(), ids)
    assert.equal(new Set(ids).size, ids.length)
  }),
  check("keeps a call that did not say what it changed", function*({ holds, ids, save }) {
    const checkpoint = yield* save({})
    assert.deepEqual(checkpoint.files, [])
    assert.deepEqual(yield* ids(), [checkpoint.id])
    yield* holds(checkpoint, "a.txt", undefined)
  }),
  check("forgets one checkpoint, no other", function*({ holds, ids, reason, save, store }) {
    const [a, b] = [yield* save({ "a.txt": "1" }), yield* save({ "a.txt": "2" })]
    yield* store.forget(a)
    yield* store.forget(a)
    assert.deepEqual(yield* ids(), [b.id])
    assert.equal(yield* reason(a, "a.txt"), "NotFound")
    yield* holds(b, "a.txt", "2")
  }),
  check("keeps the hash alone of a content over a quarter of its bytes", function*({ holds, ids, reason, save }) {
    const older = yield* save({ "a.txt": "1" })
    const checkpoint = yield* save({ "small.txt": quarter, "large.txt": `${quarter}x` })
    assert.deepEqual(checkpoint.files.map(({ before, isKept, size }) => ({ before, isKept, size })), [
      { before: FileChange.hashOf(quarter), size: 25, isKept: true },
      { before: FileChange.hashOf(`${quarter}x`), size: 26, isKept: false }
    ])
    assert.equal(yield* reason(checkpoint, "large.txt"), "NotKept")
    yield* holds(checkpoint, "small.txt", quarter)
    assert.deepEqual(yield* ids(), [checkpoint.id, older.id])
  }, { maxBytes: 100 }),
  check("lets the oldest of a principal go over its bytes, and no other's", function*({ holds, ids, reason, save }) {
    const theirs = yield* save({ "a.txt": quarter }, { principal: "q" })
    const a = yield* save({ "a.txt": quarter })
    const b = yield* save({ "a.txt": quarter })
    const c = yield* save({ "a.txt": quarter, "b.txt": quarter })
    assert.deepEqual([yield* ids("q"), yield* ids()], [[theirs.id], [c.id, b.id, a.id]])
    const d = yield* save({ "a.txt": "x" })
    assert.equal(yield* reason(a, "a.txt"), "NotFound")
    assert.deepEqual(yield* ids(), [d.id, c.id, b.id])
    // an attempt that is not stored evicts nothing
    const e = yield* save({ "a.txt": "x".repeat(1_000), "b.txt": "x".repeat(24) })
    assert.deepEqual(yield* ids(), [e.id, d.id, c.id, b.id])
    const f = yield* save({ "a.txt": quarter, "b.txt": quarter })
    assert.deepEqual(yield* ids(), [f.id, e.id, d.id])
    yield* holds(f, "b.txt", quarter)
    for (let n = 0; n < 11; n++) yield* save({ "a.txt": quarter })
    assert.deepEqual(yield* ids("q"), [theirs.id])
    yield* holds(theirs, "a.txt", quarter)
  }, { maxBytes: 100 }),
  check("makes a principal live with what others leave of all bytes", function*({ holds, ids, reason, save, store }) {
    const most = { "a.txt": quarter, "b.txt": quarter, "c.txt": "x".repeat(20) }
    const theirs = yield* save(most, { principal: "q" })
    const a = yield* save({ "a.txt": quarter })
    const b = yield* save({ "a.txt": "x".repeat(20) })
    // the principal's own are evicted first
    assert.deepEqual([yield* ids("q"), yield* ids()], [[theirs.id], [b.id]])
    assert.equal(yield* reason(a, "a.txt"), "NotFound")
    const c = yield* save({ "a.txt": quarter, "b.txt": "x".repeat(6) })
    assert.deepEqual(c.files.map(({ isKept }) => isKept), [true, false])
    assert.equal(yield* reason(c, "b.txt"), "NotKept")
    yield* holds(theirs, "c.txt", "x".repeat(20))
    // forgetting makes room
    yield* store.forget(theirs)
    assert.deepEqual((yield* save(most)).files.map(({ isKept }) => isKept), [true, true, true])
  }, { maxBytes: 100, maxTotalBytes: 100 }),
  check("has room again for what was forgotten", function*({ ids, save, store }) {
    const quarters = { "a.txt": quarter, "b.txt": quarter }
    const [a, b] = [yield* save(quarters), yield* save(quarters)]
    yield* store.forget(b)
    const c = yield* save(quarters)
    assert.deepEqual(yield* ids(), [c.id, a.id])
  }, { maxBytes: 100 }),
  check("forgets a checkpoint at its age", function*({ ids, later, reason, save, store }) {
    const a = yield* save({ "a.txt": "1" })
    yield* later(1_800_000)
    const b = yield* save({ "a.txt": "2" })
    yield* save({ "a.txt": "3" }, { principal: "q" })
    yield* later(1_700_000)
    assert.deepEqual(yield* ids(), [b.id, a.id])
    yield* later(100_000)
    assert.deepEqual(yield* ids(), [b.id])
    assert.equal(yield* reason(a, "a.txt"), "NotFound")
    yield* later(1_800_000)
    // an unlisted one may still exist
    const pruned = yield* store.prune
    assert.equal(pruned === 2 || pruned === 3, true, `${pruned}`)
    assert.equal(yield* store.prune, 0)
    assert.equal(yield* reason(b, "a.txt"), "NotFound")
    assert.deepEqual([yield* ids(), yield* ids("q")], [[], []])
  }, { maxAge: "1 hour" }),
  check("remembers the newest of a principal, those without files included", function*({ ids, save }) {
    const theirs = yield* save({}, { principal: "q" })
    const saved: Array<string> = []
    for (let n = 0; n < 8; n++) saved.unshift((yield* save(n % 2 === 0 ? { "a.txt": "1" } : {})).id)
    assert.deepEqual(yield* ids(), saved.slice(0, 5))
    assert.deepEqual(yield* ids("q"), [theirs.id])
  }, { maxCount: 5 }),
  check("keeps concurrent writes", function*({ holds, ids, store }) {
    const saved = yield* Effect.forEach(
      Array.from({ length: 20 }, (_, index) => write({ "a.txt": `${index}` })),
      store.save,
      { concurrency: "unbounded" }
    )
    const kept = saved.map(({ id }) => id).toSorted()
    assert.equal(new Set(kept).size, 20)
    assert.deepEqual((yield* ids()).toSorted(), kept)
    for (const [index, one] of saved.entries()) yield* holds(one, "a.txt", `${index}`)
  }),
  check("keeps its bounds under concurrent writes", function*({ ids, save, store }) {
    const theirs = yield* save({ "a.txt": quarter, "b.txt": quarter }, { principal: "q" })
    yield* Effect.forEach(
      Array.from({ length: 12 }, (_, index) => write({ "a.txt": `${quarter.slice(2)}${index}`.slice(-25) })),
      store.save,
      { concurrency: "unbounded" }
    )
    assert.equal((yield* ids()).length, 3)
    assert.deepEqual(yield* ids("q"), [theirs.id])
  }, { maxBytes: 100, maxCount: 3, maxTotalBytes: 150 }),
  check("keeps contents that the caller changes afterwards", function*({ holds, save }) {
    const content = Uint8Array.from([1, 2, 3])
    const checkpoint = yield* save({ "a.txt": content })
    content[0] = 9
    yield* holds(checkpoint, "a.txt", Uint8Array.from([1, 2, 3]))
  }),
  check("takes principals and paths of any text", function*({ holds, ids, save }) {
    const names = [
      "constructor",
      "",
      "\n",
      "\0",
      "../x",
      "/etc/x",
      "0",
      "checkpoint.json",
      "🙂",
      "\ud83d",
      "\ud800",
      "'; --",
      "x".repeat(5_000)
    ]
    const contents = Object.fromEntries(names.map((name) => [name, `in ${names.indexOf(name)}`]))
    for (const principal of names) {
      const checkpoint = yield* save(contents, { principal, batch: principal, callId: principal, tool: principal })
      for (const path of names) yield* holds(checkpoint, path, `in ${names.indexOf(path)}`)
      assert.deepEqual(yield* ids(principal), [checkpoint.id])
    }
  }),
  check("has nothing for an id that it did not give", function*({ ids, reason, save, store }) {
    const checkpoint = yield* save({ "a.txt": "1" })
    for (const id of ["", "../../x", "..", `${checkpoint.id}/..`, `../${checkpoint.id}`, "\0", "' OR '1'='1"]) {
      assert.equal(yield* reason({ ...checkpoint, id }, "a.txt"), "NotFound")
      yield* Effect.exit(store.forget({ ...checkpoint, id }))
    }
    assert.deepEqual(yield* ids(), [checkpoint.id])
  })
]
