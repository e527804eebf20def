/** Live items of several processes over one PostgreSQL. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { LiveTable } from "../../../src/core/store/LiveTable.ts"
import type { LiveItem } from "../../../src/server/api/ApiApprovals.ts"
import { LiveLog } from "../../../src/server/live/LiveLog.ts"
import * as LiveLogs from "../../../src/server/live/LiveLog.ts"
import * as SqlLive from "../../../src/sql/SqlLive.ts"
import * as Postgres from "../../support/Postgres.ts"
import { second } from "../../support/silentProxy.ts"

const resolved = (id: string) => ({ _tag: "ApprovalResolved", approval: approvalOf(id) }) as const satisfies LiveItem

const approvalOf = (id: string) => ({
  id,
  user: "bob",
  session: "home",
  callId: "c",
  tool: "write",
  agentPath: [],
  targets: [],
  facts: { readOnly: false, openWorld: false, undoable: false },
  requestedAt: 1,
  endedAt: 2,
  how: "denied" as const,
  next: "Nothing to do."
})

const event = (wave: string): LiveItem =>
  ({ _tag: "WaveEvent", user: "bob", session: "home", wave, event: { _tag: "Whatever" } }) as never

/** What a reader of a process gets, without heartbeats. */
const reader = Effect.fnUntraced(function*(log: LiveLog["Service"], after: string | undefined, user = "bob") {
  const got: Array<LiveItem> = []
  yield* log.stream(after, (of) => of === user).pipe(
    Stream.runForEach(({ data }) => Effect.sync(() => data._tag === "Heartbeat" ? undefined : got.push(data))),
    Effect.forkScoped({ startImmediately: true })
  )
  return got
})

layer(Postgres.layer)("live items of several processes", (it) => {
  const runner = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, options?: SqlLive.Options) {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    let reads = 0
    const counting = Layer.effect(
      LiveTable,
      Effect.map(LiveTable, (table) => ({
        ...table,
        end: Effect.tap(table.end, () => Effect.sync(() => reads++)),
        read: (after: number) => Effect.tap(table.read(after), () => Effect.sync(() => reads++))
      }))
    )
    const table = counting.pipe(
      Layer.provide(SqlLive.layer(options)),
      Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))
    )
    const services = yield* Layer.buildWithScope(LiveLogs.layer().pipe(Layer.provideMerge(table)), scope)
    const log = Context.get(services, LiveLog)
    return { log, table: Context.get(services, LiveTable), reads: () => reads, stop: Scope.close(scope, Exit.void) }
  })
  const world = Effect.fnUntraced(function*(options?: SqlLive.Options) {
    const clients = yield* Layer.build(Postgres.client)
    const sql = Context.get(clients, SqlClient.SqlClient)
    return { sql, one: yield* runner(sql, options), two: yield* runner(sql, options) }
  })
  const test = (
    name: string,
    body: (it: Effect.Success<ReturnType<typeof world>>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: SqlLive.Options
  ) => it.effect(name, () => Effect.scoped(Effect.flatMap(world(options), body)))

  const seconds = Effect.repeat(second, { times: 3 })

  test("are followed from any of them, each item once, by those who may see it", ({ one, two }) =>
    Effect.gen(function*() {
      const here = yield* reader(one.log, yield* one.log.cursor)
      const there = yield* reader(two.log, yield* two.log.cursor)
      const strange = yield* reader(two.log, yield* two.log.cursor, "eve")
      one.log.tell("bob", resolved("a"))
      yield* seconds
      two.log.tell("bob", resolved("b"))
      yield* seconds
      assert.deepStrictEqual(here, [resolved("a"), resolved("b")])
      assert.deepStrictEqual(there, [resolved("a"), resolved("b")])
      assert.deepStrictEqual(strange, [])
    }))

  test("have one note for all events of a wave of another process", ({ one, two }) =>
    Effect.gen(function*() {
      const there = yield* reader(two.log, yield* two.log.cursor)
      for (let n = 0; n < 50; n++) one.log.tell("bob", event(n % 2 === 0 ? "w1" : "w2"))
      yield* seconds
      const note = { _tag: "WaveEventLeftOut", user: "bob", session: "home" } as const
      assert.deepStrictEqual(there, [{ ...note, wave: "w1" }, { ...note, wave: "w2" }])
    }))

  test("cost no statement while nobody follows, and a page that loads its lists misses nothing", ({ one, two }) =>
    Effect.gen(function*() {
      one.log.tell("bob", resolved("a"))
      yield* seconds
      assert.strictEqual(two.reads(), 0)
      const cursor = yield* two.log.cursor
      one.log.tell("bob", resolved("b"))
      yield* seconds
      const there = yield* reader(two.log, cursor)
      yield* second
      assert.deepStrictEqual(there, [resolved("b")])
    }))

  test("start over on another process, and after nobody followed for a while", ({ one, two }) =>
    Effect.gen(function*() {
      const cursor = yield* one.log.cursor
      const moved = yield* reader(two.log, cursor)
      yield* second
      assert.deepStrictEqual(moved, [{ _tag: "Reset" }])
      yield* Effect.repeat(second, { times: 40 })
      const before = one.reads()
      yield* seconds
      assert.strictEqual(one.reads(), before)
      const late = yield* reader(one.log, cursor)
      yield* second
      assert.deepStrictEqual(late, [{ _tag: "Reset" }])
    }))

  test(
    "start over for who falls behind what is kept, and the table stays bounded",
    ({ one, sql, two }) =>
      Effect.gen(function*() {
        const there = yield* reader(two.log, yield* two.log.cursor)
        for (let n = 0; n < 30; n++) {
          yield* one.table.append([{ user: "bob", item: JSON.stringify(resolved(String(n))) }])
        }
        yield* seconds
        assert.isTrue(there.some((it) => it._tag === "Reset"))
        const rows = yield* sql`SELECT 1 FROM tool_executor_live`
        assert.isAtMost(rows.length, 22)
      }),
    { maxItems: 20 }
  )

  test("reach the others also when their process stops at once", ({ one, two }) =>
    Effect.gen(function*() {
      const there = yield* reader(two.log, yield* two.log.cursor)
      one.log.tell("bob", resolved("last"))
      yield* one.stop
      yield* seconds
      assert.deepStrictEqual(there, [resolved("last")])
    }))

  test("start over everywhere where items could not be written", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const there = yield* reader(two.log, yield* two.log.cursor)
      yield* sql`ALTER TABLE tool_executor_live_end RENAME TO away`
      one.log.tell("bob", resolved("lost"))
      yield* seconds
      assert.deepStrictEqual(there, [])
      yield* sql`ALTER TABLE away RENAME TO tool_executor_live_end`
      yield* seconds
      one.log.tell("bob", resolved("told"))
      yield* seconds
      assert.deepStrictEqual(there, [{ _tag: "Reset" }, resolved("told")])
    }))
})
