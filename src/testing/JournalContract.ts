/** Checks for drivers of `Journal`. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as assert from "node:assert/strict"
import * as Journal from "../core/store/Journal.ts"
import * as Contract from "./Contract.ts"

export interface Driver<Also = never, Needs = never>
  extends Contract.Driver<Journal.Journal, Partial<Journal.Keeps>, Also, Needs>
{
  /**
   * Opens the journal again, as another process would, for the rest of the scope. Omitted if a journal belongs to one
   * process.
   */
  readonly another?: Effect.Effect<Journal.Journal["Service"], unknown, Also | Scope.Scope> | undefined
}

/** Makes the checks of a driver. */
export const make = <Also = never, Needs = never>(
  driver: Driver<Also, Needs>
): ReadonlyArray<Contract.Check<Needs>> => {
  const { another } = driver
  return [
    ...Contract.checks(Journal.Journal, driver, all),
    ...(another === undefined ? [] : shared.map(({ body, name }) => ({
      name,
      check: Effect.scoped(Effect.flatMap(Journal.Journal, (journal) => body(journal, another))).pipe(
        Effect.provide(driver.layer(), { local: true })
      )
    })))
  ]
}

/** An entry of a call, for tests; missing fields have arbitrary values. */
export const entry = <T extends "Arrived" | "Started" | "Settled" | "Suspended" | "OrphanEnded">(
  _tag: T,
  of: Partial<Journal.Of<T>> & { readonly key: string }
): Journal.Of<T> => ({ ...common, ...bodies[_tag], ...of } as Journal.Of<T>)

type Service = Journal.Journal["Service"]

const common = {
  at: 1_000,
  principal: "p",
  session: "s",
  agentPath: [],
  batch: "b",
  process: "main",
  wave: 1,
  index: 0,
  callId: "c",
  tool: "t"
}

const outcome = {
  _tag: "Succeeded",
  callId: "c",
  tool: "t",
  index: 0,
  attempt: 1,
  queuedAt: 1_000,
  startedAt: 1_000,
  duration: 1,
  commits: 0,
  output: { _tag: "Inline", value: { a: [1, null] }, modelText: "{\"a\":[1,null]}" },
  requestsContinuation: false,
  hasContinueRule: false
} as const

const bodies = {
  Arrived: { _tag: "Arrived", args: { _tag: "Full", value: { q: 1 } } },
  Started: {
    _tag: "Started",
    attempt: 1,
    limitMillis: 120_000,
    idempotencyKey: "i",
    mutates: true,
    allowedBy: "policy"
  },
  Settled: { _tag: "Settled", outcome },
  Suspended: { _tag: "Suspended", reason: "the host stops" },
  OrphanEnded: { _tag: "OrphanEnded" }
} as const

const append = (journal: Service, ...entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

const read = (journal: Service, query: Journal.Query = {}) => Stream.runCollect(journal.read(query))

const entries = (journal: Service, query?: Journal.Query) =>
  Effect.map(read(journal, query), (all) => all.map((it) => it.entry))

const keysOf = (journal: Service, query?: Journal.Query) =>
  Effect.map(entries(journal, query), (all) => all.map((it) => Journal.isOfCall(it) ? it.key : it._tag))

const grant = {
  id: "g",
  principal: "p",
  tool: "t",
  agentPath: [],
  answer: "ApproveForScope",
  grantedAt: 1_000
} as const

const odd = ["", "\0", "\ufeffé\r\n\u2028", "🙂", "\ud83d", "'\"\\%_$1?", "{\"a\":1}\n"]

const check = Contract.statement<Service, Partial<Journal.Keeps>>

const all: ReadonlyArray<Contract.Statement<Service, Partial<Journal.Keeps>>> = [
  check("gives entries back as they were written, in their order", function*(journal) {
    const written: ReadonlyArray<Journal.JournalEntry> = [
      entry("Arrived", { key: "1" }),
      entry("Started", { key: "1" }),
      { _tag: "Granted", at: 1, principal: "p", session: "s", grant },
      entry("Settled", { key: "1" }),
      { _tag: "Revoked", at: 2, principal: "p", session: "s", grant: "g", tool: "t" },
      { _tag: "Gap", at: 3, principal: "p", session: "s", lost: 2 }
    ]
    yield* append(journal, ...written.slice(0, 2))
    yield* append(journal, ...written.slice(2))
    assert.deepEqual(yield* entries(journal), written)
  }),
  check("gives later entries higher places", function*(journal) {
    for (const key of ["1", "2", "3"]) yield* append(journal, entry("Arrived", { key }), entry("Settled", { key }))
    const places = (yield* read(journal)).map((it) => it.place)
    assert.equal(places.length, 6)
    assert.deepEqual(places, Array.from(new Set(places)).sort((one, other) => one - other))
    assert.deepEqual(yield* keysOf(journal, { after: places[3]! }), ["3", "3"])
  }),
  check("keeps every text", function*(journal) {
    const written = odd.map((it, index) =>
      entry("Arrived", {
        key: String(index),
        principal: it,
        batch: it,
        callId: it,
        tool: it,
        args: { _tag: "Full", value: { [it]: it } }
      })
    )
    yield* append(journal, ...written)
    assert.deepEqual(yield* entries(journal), written)
    for (const [index, it] of odd.entries()) {
      assert.deepEqual(yield* keysOf(journal, { tool: it }), [String(index)])
      assert.deepEqual(yield* keysOf(journal, { principal: it, batch: it, callId: it }), [String(index)])
    }
  }),
  check("reads what is asked for", function*(journal) {
    yield* append(
      journal,
      entry("Arrived", { key: "1", at: 10, principal: "ada", batch: "x", tool: "read", callId: "a" }),
      entry("Arrived", { key: "2", at: 20, principal: "bob", batch: "x", tool: "write", callId: "a" }),
      entry("Arrived", { key: "3", at: 30, principal: "ada", batch: "y", tool: "write", callId: "b" }),
      { _tag: "Granted", at: 40, principal: "ada", session: "s", grant }
    )
    const found = (query: Journal.Query) => keysOf(journal, query)
    assert.deepEqual(yield* found({ principal: "ada" }), ["1", "3", "Granted"])
    assert.deepEqual(yield* found({ batch: "x" }), ["1", "2"])
    assert.deepEqual(yield* found({ tool: "write" }), ["2", "3"])
    assert.deepEqual(yield* found({ callId: "a" }), ["1", "2"])
    assert.deepEqual(yield* found({ keys: ["3", "1", "none"] }), ["1", "3"])
    assert.deepEqual(yield* found({ keys: [] }), [])
    assert.deepEqual(yield* found({ since: 30 }), ["3", "Granted"])
    assert.deepEqual(yield* found({ principal: "ada", tool: "write", since: 20 }), ["3"])
    assert.deepEqual(yield* found({ batch: "none" }), [])
  }),
  check("reads long journals whole, up to what was the last entry when it began", function*(journal) {
    const keys = Array.from({ length: 2_500 }, (_, index) => `${index} ${"x".repeat(index % 300)}`)
    for (let at = 0; at < keys.length; at += 500) {
      yield* append(journal, ...keys.slice(at, at + 500).map((key) => entry("Arrived", { key })))
    }
    assert.deepEqual(yield* keysOf(journal), keys)
    let isFirst = true
    const seen = yield* Stream.runCollect(Stream.tap(journal.read({}), () => {
      if (!isFirst) return Effect.void
      isFirst = false
      return append(journal, entry("Arrived", { key: "late" }))
    }))
    assert.equal(seen.length, keys.length)
    assert.deepEqual(yield* keysOf(journal, { keys: ["late"] }), ["late"])
  }),
  check("reads what lies between two places, from either end", function*(journal) {
    const keys = Array.from({ length: 12 }, (_, index) => String(index))
    for (const key of keys) {
      yield* append(journal, entry("Arrived", { key, tool: Number(key) % 3 === 0 ? "third" : "t" }))
    }
    const places = (yield* read(journal)).map((it) => it.place)
    const found = (query: Journal.Query) => keysOf(journal, query)
    const between = { after: places[2]!, before: places[9]! }
    assert.deepEqual(yield* found({ order: "newest" }), keys.toReversed())
    assert.deepEqual(yield* found({ before: places[2]! }), ["0", "1"])
    assert.deepEqual(yield* found({ ...between, order: "oldest" }), keys.slice(3, 9))
    assert.deepEqual(yield* found({ ...between, order: "newest" }), keys.slice(3, 9).toReversed())
    assert.deepEqual(yield* found({ ...between, order: "newest", tool: "third" }), ["6", "3"])
    assert.deepEqual(yield* found({ order: "newest", before: places[0]! }), [])
    assert.deepEqual(yield* found({ order: "newest", before: places[11]! + 1_000, after: places[10]! }), ["11"])
    // page by page: each page starts at the last position
    const paged: Array<number> = []
    for (let before: number | undefined = Infinity; before !== undefined;) {
      const query: Journal.Query = { order: "newest", before }
      const page: ReadonlyArray<Journal.Recorded> = yield* Stream.runCollect(Stream.take(journal.read(query), 5))
      paged.push(...page.map((it) => it.place))
      before = page.at(-1)?.place
    }
    assert.deepEqual(paged, places.toReversed())
  }),
  check("gives pages that together are what is read, however little one may have", function*(journal) {
    const whose = ["ada", "ada/1", "bob/1", "adam", "bob/1/x"]
    yield* append(
      journal,
      ...Array.from({ length: 60 }, (_, index) =>
        entry("Arrived", {
          key: String(index),
          principal: whose[index % whose.length]!,
          tool: index % 7 === 0 ? "seventh" : "t",
          args: { _tag: "Full", value: "x".repeat(index === 31 ? 5_000 : index) }
        }))
    )
    const queries: ReadonlyArray<Journal.Query> = [
      {},
      { owners: ["ada"] },
      { owners: ["bob", "adam"], tool: "seventh" },
      { owners: ["nobody"] },
      { owners: [] },
      { principal: "ada/1" },
      { tool: "seventh" }
    ]
    for (const query of queries) {
      for (const order of ["oldest", "newest"] as const) {
        for (const bounds of [{ entries: 1, chars: 1e6 }, { entries: 7, chars: 1e6 }, { entries: 100, chars: 900 }]) {
          const paged: Array<Journal.Recorded> = []
          let next: number | undefined
          do {
            const from = next === undefined ? {} : order === "newest" ? { before: next } : { after: next }
            const page: Journal.Page = yield* journal.page({ ...query, ...from, order }, bounds)
            assert.ok(page.entries.length <= bounds.entries)
            paged.push(...page.entries)
            next = page.next
          } while (next !== undefined)
          assert.deepEqual(paged, yield* read(journal, { ...query, order }))
        }
      }
    }
    const seen = (yield* read(journal, { owners: ["ada"] })).map((it) => it.entry.principal)
    assert.deepEqual([seen.length, new Set(seen)], [24, new Set(["ada", "ada/1"])])
  }),
  check("reads all that is on record of calls without an end, where these alone are asked for", function*(journal) {
    yield* append(
      journal,
      entry("Arrived", { key: "open" }),
      entry("Arrived", { key: "ended" }),
      entry("Settled", { key: "ended" }),
      entry("Started", { key: "open" }),
      entry("Arrived", { key: "again" }),
      entry("Settled", { key: "again" }),
      entry("Arrived", { key: "again" }),
      entry("Arrived", { key: "other", batch: "other" })
    )
    for (const order of ["oldest", "newest"] as const) {
      const found = yield* keysOf(journal, { isOpen: true, batch: "b", order })
      assert.deepEqual(
        [found.filter((it) => it === "open").length, found.includes("again"), found.includes("other")],
        [
          2,
          true,
          false
        ]
      )
    }
  }),
  check("reads long journals backwards, from what was the last entry when it began", function*(journal) {
    const keys = Array.from({ length: 2_500 }, (_, index) => `${index} ${"x".repeat(index % 300)}`)
    for (let at = 0; at < keys.length; at += 500) {
      yield* append(journal, ...keys.slice(at, at + 500).map((key) => entry("Arrived", { key })))
    }
    const seen: Array<Journal.Recorded> = []
    yield* Stream.runForEach(journal.read({ order: "newest" }), (it) => {
      seen.push(it)
      return seen.length === 1 ? append(journal, entry("Arrived", { key: "late" })) : Effect.void
    })
    assert.deepEqual(seen.map(({ entry }) => Journal.isOfCall(entry) && entry.key), keys.toReversed())
    assert.deepEqual(
      yield* Stream.runCollect(Stream.take(journal.read({ order: "newest", before: seen[0]!.place }), 2_000)),
      seen.slice(1, 2_001)
    )
  }),
  check("keeps what was appended together together, with other appends under way", function*(journal) {
    const groups = Array.from(
      { length: 40 },
      (_, group) => Array.from({ length: 1 + group % 5 }, (_, index) => entry("Arrived", { key: `${group}.${index}` }))
    )
    yield* Effect.forEach(
      groups,
      (it, index) => journal.append(it.map((entry) => ({ entry })), { durable: index % 2 === 0 }),
      { concurrency: "unbounded" }
    )
    const keys = yield* keysOf(journal)
    assert.equal(keys.length, groups.flat().length)
    for (const group of groups) {
      const at = keys.indexOf(group[0]!.key)
      assert.deepEqual(keys.slice(at, at + group.length), group.map((it) => it.key))
    }
  }),
  check("writes what it was given, though its caller is interrupted or appends nothing", function*(journal) {
    yield* journal.append([], { durable: true })
    yield* Fiber.interrupt(
      yield* Effect.forkChild(append(journal, entry("Arrived", { key: "1" })), { startImmediately: true })
    )
    yield* append(journal, entry("Arrived", { key: "2" }))
    assert.deepEqual(yield* keysOf(journal), ["1", "2"])
  }),
  check("says what it keeps of arguments and outputs", function*(journal) {
    assert.deepEqual(journal.keeps, { arguments: "hashes", outputs: "none" })
  }, { arguments: "hashes", outputs: "none" }),
  check("knows equal texts again by a hash that does not have them", function*(journal) {
    const hash = journal.digest("a secret")
    assert.equal(journal.digest("a secret"), hash)
    assert.notEqual(journal.digest("a secreT"), hash)
    assert.ok(!hash.includes("secret") && hash.length >= 32)
    assert.equal(new Set(odd.map((it) => journal.digest(it))).size, odd.length)
  }),
  check("gives calls that are not on record, or were suspended, to their first claim, once", function*(journal) {
    yield* append(journal, entry("Arrived", { key: "1" }), entry("Suspended", { key: "1" }))
    assert.deepEqual(yield* journal.claim(["1", "new"], "p"), { _tag: "Claimed", ended: [] })
    assert.deepEqual(yield* journal.claim(["1"], "p"), { _tag: "Busy", keys: ["1"] })
    assert.deepEqual(yield* journal.claim(["new", "other"], "p"), { _tag: "Busy", keys: ["new"] })
    assert.deepEqual(yield* journal.claim(["other"], "p"), { _tag: "Claimed", ended: [] })
  }),
  check("says which calls have an end, and takes over nothing of those that run", function*(journal) {
    yield* append(
      journal,
      entry("Arrived", { key: "ended" }),
      entry("Arrived", { key: "runs" }),
      entry("Started", { key: "runs" }),
      entry("Settled", { key: "ended" }),
      entry("OrphanEnded", { key: "ended" })
    )
    assert.deepEqual(yield* journal.claim(["ended", "runs", "free"], "p"), { _tag: "Busy", keys: ["runs"] })
    assert.deepEqual(yield* journal.claim(["ended", "free"], "p"), { _tag: "Claimed", ended: ["ended"] })
    assert.deepEqual(yield* journal.claim([], "p"), { _tag: "Claimed", ended: [] })
  }),
  check("has a claimed call run until it has an end or is suspended", function*(journal) {
    yield* journal.claim(["1", "2"], "p")
    yield* append(journal, entry("Arrived", { key: "1", isResumed: true }), entry("Settled", { key: "1" }))
    yield* append(journal, entry("Suspended", { key: "2" }))
    assert.deepEqual(yield* journal.claim(["1", "2"], "p"), { _tag: "Claimed", ended: ["1"] })
  }),
  check("lets one of many concurrent claims win", function*(journal) {
    const claims = yield* Effect.forEach(
      Array.from({ length: 20 }, (_, index) => index),
      (index) => journal.claim(index % 2 === 0 ? ["1", "2"] : ["2", "3"], "p"),
      { concurrency: "unbounded" }
    )
    assert.equal(claims.filter((it) => it._tag === "Claimed").length, 1)
  })
]

/** Checks of a journal opened by several processes. */
const shared: ReadonlyArray<{
  readonly name: string
  readonly body: <R>(
    journal: Service,
    another: Effect.Effect<Service, unknown, R | Scope.Scope>
  ) => Effect.Effect<void, unknown, R | Scope.Scope>
}> = [
  {
    name: "is one journal for all who have it open",
    body: Effect.fnUntraced(function*(journal, another) {
      yield* append(journal, entry("Arrived", { key: "1" }))
      const other = yield* another
      assert.deepEqual(yield* keysOf(other), ["1"])
      assert.equal(other.digest("text"), journal.digest("text"))
      yield* append(journal, entry("Settled", { key: "1" }))
      assert.deepEqual(yield* keysOf(other), ["1", "1"])
    })
  },
  {
    name: "gives away no call whose owner is alive",
    body: Effect.fnUntraced(function*(journal, another) {
      yield* append(journal, entry("Arrived", { key: "1" }))
      yield* journal.claim(["2"], "p")
      const other = yield* another
      assert.deepEqual(yield* other.claim(["1"], "p"), { _tag: "Busy", keys: ["1"] })
      assert.deepEqual(yield* other.claim(["2"], "p"), { _tag: "Busy", keys: ["2"] })
      yield* append(journal, entry("Settled", { key: "1" }))
    })
  },
  {
    name: "gives the open calls of an owner that is gone to one of those who claim them",
    body: Effect.fnUntraced(function*(journal, another) {
      // the first one has written nothing, so it holds nothing
      yield* Effect.scoped(Effect.gen(function*() {
        const gone = yield* another
        yield* append(
          gone,
          entry("Arrived", { key: "1" }),
          entry("Arrived", { key: "2" }),
          entry("Settled", { key: "2" })
        )
        yield* gone.claim(["3"], "p")
        yield* gone.append([{ entry: entry("Started", { key: "1" }) }], { durable: false })
      }))
      assert.deepEqual(yield* keysOf(journal), ["1", "2", "2", "1"])
      const other = yield* another
      const claims = yield* Effect.forEach(
        [journal, other, journal, other],
        (it) => Effect.option(it.claim(["1", "2", "3"], "p")),
        { concurrency: "unbounded" }
      )
      const won = claims.filter((it) => Option.isSome(it) && it.value._tag === "Claimed")
      assert.deepEqual(won.map((it) => Option.getOrThrow(it)), [{ _tag: "Claimed", ended: ["2"] }])
    })
  }
]
