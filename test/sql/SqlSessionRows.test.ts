/** Rows of sessions in PostgreSQL, and the stores over them, among several processes. */
import { assert, layer } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { type Change, isLost } from "../../src/core/store/SessionRows.ts"
import type { WaveInfo } from "../../src/server/api/ApiModels.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as SharedLists from "../../src/server/sessions/SharedLists.ts"
import { toPrincipal } from "../../src/server/users/Principals.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as Postgres from "../support/Postgres.ts"
import { counted } from "../support/throughClient.ts"

const ada = { user: "ada", session: "s" }
const principal = toPrincipal(ada)

const put = (key: string, value: string, more: Partial<Extract<Change, { readonly _tag: "Put" }>> = {}): Change => ({
  _tag: "Put",
  key,
  value,
  ...more
})

const begun = (wave: string, beganAt = 1, of = ada): WaveStore.SubmittedWave => ({
  ...of,
  turn: "t",
  wave,
  format: "native",
  message: [{ id: "1", name: "read", params: {} }],
  beganAt
})

const infoOf = ({ format: _, message: __, ...wave }: WaveStore.SubmittedWave): WaveInfo => ({
  ...wave,
  status: "running",
  calls: 1,
  tools: ["read"]
})

const state = {
  rules: { succeeded: ["read"], succeededInBatch: [], exitWanted: false, held: 0, letThrough: false },
  blocked: [],
  calls: 1
}

const endOf = (wave: WaveStore.SubmittedWave, at: number, isTurnOpen = false): WaveStore.End => ({
  ended: { at, messages: [], events: [] },
  info: { ...infoOf(wave), status: "ended", endedAt: at },
  turn: { state, wave: wave.wave, at },
  isTurnOpen
})

const conversation = (
  of: typeof ada,
  open: ReadonlyArray<string>,
  updatedAt: number
): OperationStore.KeptConversation => ({
  ...of,
  agent: "support",
  title: "Where is order 17?",
  usage: { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0, cacheWriteInputTokens: 0 },
  updatedAt,
  open,
  operations: [{ id: "one", said: [] }, { id: "two", said: [] }]
})

const operation = (id: string, of = ada): OperationStore.SubmittedOperation => ({
  ...of,
  operation: id,
  agent: "support",
  startedAt: 1,
  inputs: [{ id, text: "Where is order 17?" }]
})

const said = (text: string): Prompt.Message => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

/** A process of its own over the database, until its scope is closed. */
const start = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const registry = yield* SqlSessionRegistry.make().pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Scope.provide(scope)
  )
  const rows = yield* SqlSessionRows.make.pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Effect.provideService(SessionRegistry, registry)
  )
  return {
    registry,
    rows,
    waves: WaveStore.make(rows),
    operations: OperationStore.make(rows),
    transcripts: TranscriptStore.make(rows)
  }
})

layer(Postgres.layer)("rows of sessions in PostgreSQL", (it) => {
  const processes = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const sql = Context.get(yield* Layer.build(Postgres.clientOf(url)), SqlClient.SqlClient)
    return { sql, one: yield* start(sql), two: yield* start(sql) }
  })

  const test = (
    name: string,
    body: (it: Effect.Success<typeof processes>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(
      name,
      () => Effect.scoped(Effect.flatMap(processes, body)).pipe(Effect.provide(Postgres.realTime)),
      options
    )

  test("are written by who holds the session, and read by all", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(principal)
      yield* one.rows.of(principal).write([put("a", "1"), put("b.0", "2"), put("b.10", "4"), put("b.2", "3")])
      const found = yield* two.rows.of(principal).read({ keys: ["a", "x"], sequences: ["b"] })
      assert.deepStrictEqual(Array.from(found), [["a", "1"], ["b.0", "2"], ["b.2", "3"], ["b.10", "4"]])
      assert.strictEqual((yield* two.rows.of(principal).read({ head: "x", keys: ["a"] })).size, 0)
      assert.strictEqual((yield* two.rows.of("ada/other").read({ keys: ["a"], sequences: ["b"] })).size, 0)
      assert.isTrue(isLost(yield* Effect.flip(two.rows.of(principal).write([put("a", "2")]))))
      yield* one.rows.of(principal).write([
        put("a", "5"),
        { _tag: "RemoveSequence", key: "b" },
        { _tag: "Remove", key: "x" }
      ])
      assert.deepStrictEqual(Array.from(yield* one.rows.of(principal).read({ keys: ["a"], sequences: ["b"] })), [[
        "a",
        "5"
      ]])
    }))

  test("stay as they are when an owner writes that has lost the session", ({ one, sql }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(principal)
      const before = one.rows.of(principal)
      yield* before.write([put("a", "1")])
      // another process has it, and this one has not heard so yet
      yield* sql`UPDATE tool_executor_sessions SET epoch = epoch + 1`
      assert.isTrue(isLost(yield* Effect.flip(before.write([put("a", "stale"), put("b", "stale")]))))
      assert.isTrue(epoch.isOver)
      // held again by the same process: what was begun before is not
      yield* one.registry.activate(principal)
      assert.isTrue(isLost(yield* Effect.flip(before.write([put("a", "stale")]))))
      yield* one.rows.of(principal).write([put("c", "3")])
      const left = yield* one.rows.of(principal).read({ keys: ["a", "b", "c"] })
      assert.deepStrictEqual(Array.from(left), [["a", "1"], ["c", "3"]])
    }), { tags: ["SE8"] })

  test("are all written or none where one that was to be new is there", ({ one }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(principal)
      const rows = one.rows.of(principal)
      yield* rows.write([put("a", "1", { isNew: true })])
      const error = yield* Effect.flip(rows.write([put("b", "2"), put("a", "other", { isNew: true }), put("c", "3")]))
      assert.deepInclude(error, { _tag: "RowExists", key: "a", value: "1" })
      assert.isFalse(isLost(error))
      assert.deepStrictEqual(Array.from(yield* rows.read({ keys: ["a", "b", "c"] })), [["a", "1"]])
    }), { tags: ["SE8"] })

  test("hold any text", ({ one }) =>
    Effect.gen(function*() {
      const odd = "é😀/b.0'\"\\"
      yield* one.registry.activate(odd)
      const rows = one.rows.of(odd)
      const value = JSON.stringify({ odd, worse: "\u0000\ud800" })
      yield* rows.write([put("a", value, { listed: { kind: "k", isOpen: true, at: 1, summary: () => value } })])
      assert.strictEqual((yield* rows.read({ keys: ["a"] })).get("a"), value)
      assert.deepStrictEqual(yield* rows.open("k"), [{ key: "a", value }])
      assert.lengthOf(yield* one.rows.summaries!({ kind: "k", users: [odd.split("/")[0]!], limit: 5 }), 1)
    }))

  test("of waves and turns are found by session, and by nobody at a start", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(principal)
      for (const [at, name] of ["late", "early", "ended"].entries()) {
        yield* one.waves.begin(begun(name, 10 - at), infoOf(begun(name)))
      }
      yield* one.waves.end(begun("ended"), endOf(begun("ended"), 20))
      assert.deepStrictEqual((yield* two.waves.openOf(ada)).map(({ wave }) => wave), ["early", "late"])
      assert.deepStrictEqual(yield* two.waves.open, [])
      assert.deepStrictEqual(yield* two.waves.openOf({ user: "ada", session: "other" }), [])
      assert.strictEqual((yield* two.waves.get(ada, "ended"))?.ended?.at, 20)
      assert.strictEqual((yield* two.waves.turn(ada, "t"))?.wave, "ended")
      const again = yield* Effect.flip(one.waves.begin(begun("early"), infoOf(begun("early"))))
      assert.strictEqual(again._tag, "WaveStoreError")
      assert.deepStrictEqual(yield* two.waves.turns(ada), ["t"])
      assert.deepStrictEqual(yield* two.waves.turns({ user: "ada", session: "other" }), [])
      yield* one.waves.removeTurn(ada, "t")
      assert.deepStrictEqual(yield* two.waves.turns(ada), [])
      assert.isUndefined(yield* two.waves.turn(ada, "t"))
    }))

  test(
    "of waves are forgotten by their age, and not what is unfinished or a wave starts from",
    ({ one, sql }) =>
      Effect.gen(function*() {
        yield* one.registry.activate(principal)
        for (const name of ["first", "waits", "last"]) yield* one.waves.begin(begun(name), infoOf(begun(name)))
        yield* one.waves.end(begun("first"), endOf(begun("first"), 10, true))
        yield* one.waves.end(begun("last"), endOf(begun("last"), 30, true))
        yield* one.waves.prune({ waves: 20, turns: 100 })
        assert.isUndefined(yield* one.waves.get(ada, "first"))
        assert.isDefined((yield* one.waves.get(ada, "last"))?.ended)
        assert.isDefined(yield* one.waves.get(ada, "waits"))
        // "waits" goes on with it
        assert.isDefined(yield* one.waves.turn(ada, "t"))
        yield* one.waves.end(begun("waits"), endOf(begun("waits"), 40))
        yield* one.waves.begin(begun("next", 41), infoOf(begun("next")))
        yield* one.waves.prune({ waves: 100, turns: 100 })
        assert.isDefined(yield* one.waves.turn(ada, "t"))
        yield* one.waves.end(begun("next"), endOf(begun("next"), 50))
        yield* one.waves.prune({ waves: 100, turns: 100 })
        assert.isUndefined(yield* one.waves.turn(ada, "t"))
        assert.lengthOf(yield* sql`SELECT key FROM tool_executor_session_rows`, 0)
      }),
    { tags: ["SE10"] }
  )

  test(
    "of a conversation come with its open operations, and are forgotten with them",
    ({ one, sql, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate(principal)
        for (const id of ["one", "two"]) yield* one.operations.submit(operation(id))
        yield* one.operations.keepConversation(conversation(ada, ["two"], 10))
        for (const number of [0, 1]) yield* one.operations.append(ada, "two", number, { log: "l", events: [] })
        const found = yield* two.operations.conversationOf(ada)
        assert.deepStrictEqual(found?.open.map((it) => [it.submitted.operation, it.ended, it.events.length]), [
          ["two", undefined, 2]
        ])
        assert.deepStrictEqual(yield* two.operations.conversations, [])
        yield* one.operations.prune(100)
        assert.isDefined(yield* one.operations.get(ada, "one"))
        yield* one.operations.keepConversation(conversation(ada, [], 20))
        yield* one.operations.prune(20)
        assert.isDefined(yield* one.operations.get(ada, "two"))
        yield* one.operations.prune(21)
        assert.isUndefined(yield* two.operations.conversationOf(ada))
        assert.lengthOf(yield* sql`SELECT key FROM tool_executor_session_rows`, 0)
      }),
    { tags: ["SE10"] }
  )

  test("of a transcript never mix what two owners said", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(principal)
      const before = yield* one.transcripts.open("s", principal)
      for (const text of ["one", "two"]) yield* before.append([said(text)])
      const epoch = one.registry.current(principal)!
      yield* one.registry.release(epoch, { _tag: "Open" })
      yield* two.registry.activate(principal)
      const after = yield* two.transcripts.open("s", principal)
      assert.deepStrictEqual(after.messages, [said("one"), said("two")])
      yield* after.append([said("three")])
      assert.isTrue(isLost(yield* Effect.flip(before.append([said("stale")]))))
      yield* after.append([said("four")])
      // held again here: what is still open from before stays lost
      yield* two.registry.release(two.registry.current(principal)!, { _tag: "Open" })
      yield* one.registry.activate(principal)
      assert.isTrue(isLost(yield* Effect.flip(before.append([said("stale")]))))
      // another one in the same process and epoch finds its number taken, and every time
      const [here, there] = [yield* two.transcripts.open("x", principal), TranscriptStore.make(one.rows)]
      assert.isTrue(isLost(yield* Effect.flip(here.append([said("stale")]))))
      const [first, second] = [
        yield* there.open("y", principal),
        yield* TranscriptStore.make(one.rows).open("y", principal)
      ]
      yield* first.append([said("mine")])
      for (let i = 0; i < 2; i++) {
        assert.include((yield* Effect.flip(second.append([said("theirs")]))).message, "exists already")
      }
      assert.deepStrictEqual((yield* one.transcripts.list).map(({ name, words }) => [name, words]), [
        ["y", "mine"],
        ["s", "one"]
      ])
      assert.lengthOf((yield* Effect.scoped(two.transcripts.open("s", principal))).messages, 4)
    }), { tags: ["SE8"] })

  test("of a process that had all sessions are continued by who holds them from then on", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const alone = yield* Effect.provideService(SqlOwnRows.make, SqlClient.SqlClient, sql)
      const [waves, operations] = [WaveStore.make(alone), OperationStore.make(alone)]
      const eve = { user: "eve", session: "s" }
      for (const wave of [begun("ended"), begun("waits"), begun("over", 1, eve)]) yield* waves.begin(wave, infoOf(wave))
      yield* waves.end(begun("ended"), endOf(begun("ended"), 10, true))
      for (const id of ["one", "two"]) yield* operations.submit(operation(id))
      yield* operations.keepConversation(conversation(ada, ["two"], 10))
      yield* operations.append(ada, "two", 0, { log: "l", events: [] })
      yield* Effect.scoped(Effect.flatMap(
        TranscriptStore.make(alone).open("x", principal),
        ({ append }) => append([said("one")])
      ))
      // two sessions have something unfinished, and either process may take them
      assert.sameMembers(Array.from(yield* two.registry.due(10)), [principal, toPrincipal(eve)])
      yield* one.registry.activate(principal)
      assert.deepStrictEqual((yield* one.waves.openOf(ada)).map(({ wave }) => wave), ["waits"])
      assert.strictEqual((yield* one.waves.get(ada, "ended"))?.ended?.at, 10)
      assert.strictEqual((yield* one.waves.turn(ada, "t"))?.wave, "ended")
      const found = yield* one.operations.conversationOf(ada)
      assert.deepStrictEqual(found?.open.map((it) => [it.submitted.operation, it.events.length]), [["two", 1]])
      const { append, messages } = yield* one.transcripts.open("x", principal)
      assert.deepStrictEqual(messages, [said("one")])
      const listed = yield* Effect.forEach(
        ["wave", "turn", "conversation"],
        (kind) => two.rows.summaries!({ kind, users: ["ada"], limit: 10 })
      )
      assert.deepStrictEqual(listed.map((all) => all.map(({ isOpen }) => isOpen)), [[true, false], [true], [true]])
      // from here on they are written in its epoch
      yield* append([said("two")])
      yield* one.waves.end(begun("waits"), endOf(begun("waits"), 20))
      assert.deepStrictEqual(yield* one.waves.openOf(ada), [])
      assert.isTrue(isLost(yield* Effect.flip(two.waves.end(begun("waits"), endOf(begun("waits"), 30)))))
    }))

  test(
    "of ten thousand waves are listed, continued and forgotten a bounded number at a time",
    ({ one, sql, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate(principal)
        yield* one.waves.begin(begun("waits", 1), infoOf(begun("waits", 1)))
        yield* one.waves.begin(begun("old", 2), infoOf(begun("old", 2)))
        yield* one.waves.end(begun("old", 2), endOf(begun("old", 2), 3))
        yield* sql`INSERT INTO tool_executor_session_rows
        SELECT session, key || lpad(n::text, 5, '0'), value, kind, is_open, username, summary, changed_at + n
        FROM tool_executor_session_rows, generate_series(1, 10000) AS n WHERE kind = 'wave' AND NOT is_open`
        yield* sql`INSERT INTO tool_executor_session_rows
        SELECT session, key || lpad(n::text, 5, '0'), value, kind, is_open, username, summary, changed_at
        FROM tool_executor_session_rows, generate_series(1, 10000) AS n WHERE key LIKE 'served.end.%'`
        yield* sql`DELETE FROM tool_executor_session_rows WHERE NOT is_open AND length(key) < 45 AND key NOT LIKE '%.turn.%'`
        yield* sql`ANALYZE tool_executor_session_rows`
        const lists = SharedLists.make(two.rows)!
        for (const [records, seen] of [[["*"], 500], [["ada"], 500], [["bob"], 0]] as const) {
          const name = records[0] === "bob" ? "eve" : "bea"
          const user = { name, run: true, approve: [], records, operate: false }
          const waves = yield* lists.waves(user, 500)
          assert.lengthOf(waves, seen)
          // what is unfinished is there, however much has ended since
          assert.strictEqual(waves[0]?.wave, seen === 0 ? undefined : "waits")
        }
        assert.deepStrictEqual(yield* lists.sessions("ada", 10), [{ session: "s", waves: 1 }])
        assert.lengthOf(yield* one.rows.summaries!({ kind: "wave", limit: 100_000 }), 1_000)
        assert.deepStrictEqual((yield* two.waves.openOf(ada)).map(({ wave }) => wave), ["waits"])
        // every question has its index, so none reads what is not asked for
        const plans = yield* Effect.forEach([
          "WHERE session = 's' AND kind = 'wave' AND is_open",
          "WHERE kind = 'wave' AND NOT is_open AND changed_at < 5 ORDER BY changed_at LIMIT 10",
          "WHERE kind = 'wave' AND summary IS NOT NULL AND is_open ORDER BY changed_at DESC LIMIT 10",
          "WHERE kind = 'wave' AND summary IS NOT NULL AND NOT is_open AND username = 'ada' ORDER BY changed_at DESC LIMIT 10",
          "WHERE session = 's' AND key >= 'x.0' AND key < 'x.:'",
          "WHERE session = 's' AND key >= 'x' || substr('y', 10000) AND key < 'x' || substr('y', 10000) || '~'"
        ], (where) => sql.unsafe(`EXPLAIN SELECT key FROM tool_executor_session_rows ${where}`))
        for (const plan of plans) {
          assert.notInclude(JSON.stringify(plan), "Seq Scan")
        }
        yield* one.waves.prune({ waves: 5_003, turns: 0 })
        const left = yield* sql<{ readonly count: unknown }>`SELECT count(*) AS count FROM tool_executor_session_rows`
        // the one that waits, the turn, and rows and ends of those that ended since
        assert.strictEqual(Number(left[0]?.count), 2 + 2 * 5_001)
      }),
    { tags: ["SE10"] }
  )

  test(
    "take one request to write, and two at most to continue a session",
    ({ one: { registry }, sql }) =>
      Effect.gen(function*() {
        yield* registry.activate(principal)
        const { client, state } = counted(sql)
        const rows = yield* SqlSessionRows.make.pipe(
          Effect.provideService(SqlClient.SqlClient, client),
          Effect.provideService(SessionRegistry, registry)
        )
        const [waves, operations] = [WaveStore.make(rows), OperationStore.make(rows)]
        const asked = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
          Effect.suspend(() => {
            const before = state.asked
            return Effect.map(effect, () => state.asked - before)
          })
        assert.strictEqual(yield* asked(waves.begin(begun("w"), infoOf(begun("w")))), 1)
        assert.strictEqual(yield* asked(waves.openOf(ada)), 1)
        // with the end of its turn, and what lists show
        assert.strictEqual(yield* asked(waves.end(begun("w"), endOf(begun("w"), 2))), 1)
        for (const id of ["one", "two"]) yield* operations.submit(operation(id))
        yield* operations.keepConversation(conversation(ada, ["one", "two"], 10))
        for (const number of [0, 1, 2]) yield* operations.append(ada, "two", number, { log: "l", events: [] })
        assert.strictEqual(yield* asked(operations.conversationOf(ada)), 2)
        assert.strictEqual(yield* asked(operations.removeOperation(ada, "two")), 1)
        const { append } = yield* TranscriptStore.make(rows).open("s", principal)
        for (const text of ["one", "two", "three"]) assert.strictEqual(yield* asked(append([said(text)])), 1)
        assert.strictEqual(yield* asked(TranscriptStore.make(rows).open("s", principal)), 1)
      }),
    { tags: ["SE9"] }
  )
})
