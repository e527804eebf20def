/** The journal where several processes share sessions: each line is written in the epoch of its session. */
import { assert, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import * as Journal from "../../src/core/store/Journal.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import type { Grant } from "../../src/core/vocabulary/Grant.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as Postgres from "../support/Postgres.ts"
import * as ThroughClient from "../support/throughClient.ts"

type Service = Journal.Journal["Service"]

const { entry } = JournalContract

const keysOf = (journal: Service) =>
  Effect.map(
    Stream.runCollect(journal.read({})),
    (all) => all.map(({ entry: it }) => Journal.isOfCall(it) ? `${it._tag} ${it.key}` : it._tag)
  )

/** A line of a call of a session, in the term in which it arrived. */
const line = (journal: Service, principal: string, of: Parameters<typeof entry>[0], key: string): Journal.Line => ({
  entry: entry(of, { key, principal }),
  term: journal.term!(principal)
})

const append = (journal: Service, ...lines: ReadonlyArray<Journal.Line>) => journal.append(lines, { durable: true })

/** A process over a database, which loses what `state.lose` says. */
const start = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, isShared = true) {
  const state: { lose: (statement: string) => ThroughClient.Loss } = { lose: () => undefined }
  const { client, state: counts } = ThroughClient.lossy(sql, (statement) => state.lose(statement))
  const registry = yield* Effect.provideService(SqlSessionRegistry.make(), SqlClient.SqlClient, client)
  const make = Effect.provideService(SqlJournal.make(), SqlClient.SqlClient, client)
  const journal: Service = yield* isShared ? Effect.provideService(make, SessionRegistry, registry) : make
  /** Loses the next append, in this way. */
  const loseNext = (loss: ThroughClient.Loss) => {
    state.lose = (statement) => {
      if (!statement.includes("INSERT INTO tool_executor_journal_entries")) return undefined
      state.lose = () => undefined
      return loss
    }
  }
  return { registry, journal, loseNext, counts, sql }
})

type Process = Effect.Success<ReturnType<typeof start>>

/** Another process takes a session over, at a moment at which the lease of its owner has expired. */
const takeOver = (of: Process, by: Process, principal: string) =>
  Effect.andThen(
    of.sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${of.registry.runner.name}`,
    by.registry.activate(principal)
  )

layer(Postgres.layer)("the journal of shared sessions", (it) => {
  const client = Effect.map(
    Effect.flatMap(Postgres.Postgres, ({ database }) => database),
    (url) => Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime))
  )
  const processes = Effect.gen(function*() {
    const sql = Context.get(yield* Layer.build(yield* client), SqlClient.SqlClient)
    return { one: yield* start(sql), two: yield* start(sql) }
  })
  const test = (
    name: string,
    body: (it: Effect.Success<typeof processes>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) => {
    const checked = Effect.fnUntraced(function*(both: Effect.Success<typeof processes>) {
      yield* body(both)
      const { findings } = yield* Effect.provideService(SqlJournal.verify(), SqlClient.SqlClient, both.one.sql)
      assert.deepStrictEqual(findings, [], "the hash chain")
    })
    it.effect(
      name,
      () => Effect.scoped(Effect.flatMap(processes, checked)).pipe(Effect.provide(Postgres.realTime)),
      options
    )
  }

  // the contract knows no terms
  const inEpoch = Layer.effect(
    Journal.Journal,
    Effect.map(
      Effect.tap(Effect.all([Journal.Journal, SessionRegistry]), ([, registry]) => registry.activate("p")),
      ([journal]): Service => ({
        ...journal,
        append: (lines, options) =>
          journal.append(lines.map((it) => ({ term: journal.term!("p"), entry: it.entry })), options)
      })
    )
  )
  for (
    const { check, name } of JournalContract.make({
      layer: (options) =>
        inEpoch.pipe(
          Layer.provideMerge(SqlJournal.layer(options)),
          Layer.provideMerge(SqlSessionRegistry.layer()),
          Layer.provideMerge(Postgres.client)
        )
    })
  ) if (/claim|takes over/.test(name)) it.effect(name, () => check)

  test(
    "writes lines of many sessions in one statement, without those of sessions that were lost",
    ({ one, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate("ann/1")
        const lost = yield* one.registry.activate("ann/2")
        yield* one.registry.activate("ann/3")
        // a group is on its way while these come
        const before = yield* Effect.forkChild(append(one.journal, line(one.journal, "ann/1", "Arrived", "0")), {
          startImmediately: true
        })
        const [first, second, third] = ["ann/1", "ann/2", "ann/3"].map((principal, n) =>
          append(one.journal, line(one.journal, principal, "Arrived", `${n + 1}`))
        )
        yield* takeOver(one, two, "ann/2")
        yield* Effect.yieldNow
        const asked = one.counts.asked
        const exits = yield* Effect.all([first!, second!, third!].map((it) => Effect.exit(it)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(exits.map((it) => it._tag), ["Success", "Failure", "Success"])
        assert.isAtMost(one.counts.asked - asked, 2)
        assert.include(String(exits[1]), "no longer holds the session")
        assert.isTrue(lost.isOver)
        assert.isUndefined(before.pollUnsafe()?._tag === "Failure" ? "failed" : undefined)
        assert.deepStrictEqual((yield* keysOf(one.journal)).toSorted(), ["Arrived 0", "Arrived 1", "Arrived 3"])
      }),
    { tags: ["SE1"] }
  )

  test(
    "leaves out lines of a lost session from then on, and does not fail for them again",
    ({ one, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate("ann/1")
        const mine = line(one.journal, "ann/1", "Arrived", "1")
        yield* takeOver(one, two, "ann/1")
        assert.isTrue(Exit.isFailure(yield* Effect.exit(append(one.journal, mine))))
        yield* append(one.journal, mine)
        yield* append(two.journal, line(two.journal, "ann/1", "Arrived", "2"))
        assert.deepStrictEqual(yield* keysOf(one.journal), ["Arrived 2"])
      }),
    { tags: ["SE3"] }
  )

  test("has no grant of a session that was lost, and what was revoked anywhere", ({ one, two }) =>
    Effect.gen(function*() {
      const common = { at: 0, principal: "ann/1", session: "s" }
      const grant: Grant = {
        id: "g",
        principal: "ann/1",
        tool: "t",
        agentPath: [],
        answer: "ApproveForScope",
        grantedAt: 0
      }
      const granted = { entry: { _tag: "Granted" as const, ...common, grant } }
      const revoked = { entry: { _tag: "Revoked" as const, ...common, grant: "g", tool: "t" } }
      yield* one.registry.activate("ann/1")
      yield* append(one.journal, granted)
      yield* takeOver(one, two, "ann/1")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(append(one.journal, { ...granted }))))
      yield* append(one.journal, { ...granted }, revoked)
      assert.deepStrictEqual(yield* keysOf(one.journal), ["Granted", "Revoked"])
    }))

  test("has a term that is over for a session that is not held here", ({ one, two }) =>
    Effect.gen(function*() {
      const term = one.journal.term!("ann/1")
      assert.isTrue(term.isOver)
      assert.isFalse(term.isHeld)
      assert.isFalse(yield* term.renew)
      yield* two.registry.activate("ann/1")
      assert.isTrue(one.journal.term!("ann/1").isOver)
      assert.isFalse(two.journal.term!("ann/1").isOver)
    }))

  test(
    "gives calls to who holds their session, without a lease, and to nobody else",
    ({ one, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate("ann/1")
        yield* append(
          one.journal,
          line(one.journal, "ann/1", "Arrived", "runs"),
          line(one.journal, "ann/1", "Arrived", "ended"),
          line(one.journal, "ann/1", "Settled", "ended")
        )
        assert.deepStrictEqual(yield* one.journal.claim(["runs"], "ann/1"), { _tag: "Busy", keys: ["runs"] })
        assert.isTrue(Exit.isFailure(yield* Effect.exit(two.journal.claim(["runs"], "ann/1"))))
        yield* takeOver(one, two, "ann/1")
        assert.deepStrictEqual(yield* two.journal.claim(["runs", "ended"], "ann/1"), {
          _tag: "Claimed",
          ended: ["ended"]
        })
        assert.deepStrictEqual(yield* two.journal.claim(["runs"], "ann/1"), { _tag: "Busy", keys: ["runs"] })
        // who has lost it does not know yet
        assert.isFalse(one.journal.term!("ann/1").isOver)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(one.journal.claim(["other"], "ann/1"))))
        assert.isTrue(one.journal.term!("ann/1").isOver)
      }),
    { tags: ["SE6"] }
  )

  for (const loss of ["statement", "answer"] as const) {
    test(
      `writes lines once where the ${loss} of a group was lost, whoever comes again first`,
      ({ one }) =>
        Effect.gen(function*() {
          yield* one.registry.activate("ann/1")
          yield* one.registry.activate("ann/2")
          const [first, second] = ["ann/1", "ann/2"].map((it, n) => line(one.journal, it, "Arrived", `${n + 1}`))
          one.loseNext(loss)
          yield* Effect.flip(append(one.journal, first!, second!))
          yield* append(one.journal, first!)
          yield* append(one.journal, line(one.journal, "ann/1", "Settled", "1"))
          yield* append(one.journal, second!)
          assert.deepStrictEqual((yield* keysOf(one.journal)).toSorted(), ["Arrived 1", "Arrived 2", "Settled 1"])
        }),
      { tags: ["SE5"] }
    )
  }

  test(
    "takes a session for lost whose lines may have been written before it was",
    ({ one, two }) =>
      Effect.gen(function*() {
        const epoch = yield* one.registry.activate("ann/1")
        const kept = yield* one.registry.activate("ann/2")
        one.loseNext("answer")
        const lines = [line(one.journal, "ann/1", "Arrived", "1"), line(one.journal, "ann/2", "Arrived", "2")]
        yield* Effect.flip(append(one.journal, ...lines))
        yield* takeOver(one, two, "ann/1")
        yield* append(one.journal, ...lines)
        assert.isTrue(epoch.isOver)
        assert.isFalse(kept.isOver)
        assert.deepStrictEqual(yield* keysOf(one.journal), ["Arrived 1", "Arrived 2"])
      }),
    { tags: ["SE5"] }
  )
})

layer(Postgres.layer)("the journal of one process", (it) => {
  it.effect("writes lines once where the answer of a group was lost, whoever comes again first", () =>
    Effect.gen(function*() {
      const { journal, loseNext } = yield* start(yield* SqlClient.SqlClient, false)
      const [first, second] = ["1", "2"].map((key) => line(journal, "p", "Arrived", key))
      loseNext("answer")
      yield* Effect.flip(append(journal, first!, second!))
      yield* append(journal, first!)
      yield* append(journal, second!)
      assert.deepStrictEqual(yield* keysOf(journal), ["Arrived 1", "Arrived 2"])
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))
})
