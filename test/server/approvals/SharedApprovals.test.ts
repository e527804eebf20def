/**
 * Approval requests of several processes over one PostgreSQL: whoever answers, whoever holds the session.
 *
 * @module-tag AP13
 * @module-tag AP14
 * @module-tag AP15
 */
import { assert, layer } from "@effect/vitest"
import { type Approvals, ToolAnnotations, ToolHandlers } from "effect-tool-executor"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"

import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import { mark } from "../../../src/internal/secrets/index.ts"
import type * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import * as ApprovalTables from "../../../src/sql/ApprovalTables.ts"
import { user } from "../../support/Asking.ts"
import * as Postgres from "../../support/Postgres.ts"
import { type Runner, runner, world } from "../../support/SharedApprovals.ts"
import { until } from "../../support/silentProxy.ts"

const ada = user("ada", ["bob"])
const cy = user("cy", ["*"])
const eve = user("eve", ["eve"])
const home = "bob/home"

const kit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ card: Schema.String, to: Schema.String }), success: Schema.String })
    .annotate(ToolAnnotations.Redact, ["card"])
)

const tools = ToolHandlers.layer(kit).pipe(Layer.provide(kit.toLayer({ pay: () => Effect.succeed("paid") })))

const once: Approvals.Answer = { _tag: "ApproveOnce" }
const deny: Approvals.Answer = { _tag: "Deny", reason: "too late" }

/** Waits until everybody sees a request, and answers what is shown. */
const to = Effect.fnUntraced(function*(runner: Runner, id: string, answer: Approvals.Answer) {
  const find = Effect.map(runner.pending.list(cy), ({ open }) => open.find((it) => it.id === id))
  yield* until(Effect.map(find, (it) => it !== undefined))
  return { id, hash: (yield* find)!.hash, answer }
})

layer(Postgres.layer)("approval requests in PostgreSQL", (it) => {
  const test = (
    name: string,
    body: (it: Effect.Success<ReturnType<typeof world>>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: PendingApprovals.Options
  ) =>
    it.effect(name, () => Effect.scoped(Effect.flatMap(world(options), body)).pipe(Effect.provide(Postgres.realTime)))

  test("are answered in another process than the one that waits, which takes the answer", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id } = yield* one.ask()
      const given = yield* to(two, id, once)
      const ended = yield* two.pending.answer(ada, given)
      assert.deepInclude(ended, { id, how: "approved", by: "ada", answer: "ApproveOnce", user: "bob", session: "home" })
      assert.isUndefined(fiber.pollUnsafe())
      const woken = yield* sql`SELECT woken FROM tool_executor_sessions`
      assert.deepStrictEqual(woken, [{ woken: true }])
      yield* one.pending.refresh(home)
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Approved", person: "ada", isOwn: true })
      const second = yield* Effect.flip(one.pending.answer(cy, { ...given, answer: deny }))
      assert.deepInclude(second, { _tag: "AlreadyEnded", how: "approved", by: "ada", answer: "ApproveOnce" })
      assert.deepStrictEqual<ReadonlyArray<unknown>>((yield* one.pending.list(ada)).ended, [ended])
    }))

  test("resolve the call at once where it waits in the process that answers", ({ one }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id } = yield* one.ask()
      yield* one.pending.answer(ada, yield* to(one, id, deny))
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Denied", by: "user", person: "ada", reason: "too late" })
    }))

  test("that are suspended wait in the list, are answered with no process, and return with the answer", ({ one, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(home)
      const { fiber, id, request } = yield* one.ask()
      const given = yield* to(two, id, once)
      const left = yield* one.pending.suspendOf(home, "nothing else runs")
      assert.deepStrictEqual(left, { pending: 1, until: request.expiresAt as number, isStored: true })
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Suspended" })
      assert.strictEqual(yield* one.registry.release(epoch, { _tag: "Waiting", until: left.until }), "Released")
      assert.deepStrictEqual((yield* one.pending.list(ada)).open.map((it) => it.id), [id])
      assert.strictEqual((yield* two.pending.list(ada)).pending, 1)
      yield* two.pending.answer(ada, given)
      assert.deepStrictEqual(yield* two.registry.due(10), [])
      yield* two.registry.activate(home)
      const again = yield* two.ask(request)
      assert.deepInclude(yield* Fiber.join(again.fiber), { _tag: "Approved", person: "ada" })
    }))

  test("that others may answer later return with the answer, whatever moment the record of the call has", ({ one, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(home)
      const later = { people: ["ada"], escalate: { after: "1 hour", to: { people: ["eve"] } } }
      const { id, request } = yield* one.ask({ approvers: [later] })
      const given = yield* to(two, id, once)
      const { until } = yield* one.pending.suspendOf(home, "nothing else runs")
      yield* one.registry.release(epoch, { _tag: "Waiting", until })
      yield* two.pending.answer(ada, given)
      yield* two.registry.activate(home)
      const again = yield* two.ask({ ...request, requestedAt: request.requestedAt + 1 })
      assert.deepInclude(yield* Fiber.join(again.fiber), { _tag: "Approved", person: "ada" })
    }))

  test("that are suspended while somebody answers are not left waiting", ({ one, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(home)
      const { id } = yield* one.ask()
      yield* two.pending.answer(ada, yield* to(two, id, once))
      const left = yield* one.pending.suspendOf(home, "nothing else runs")
      assert.isFalse(left.isStored)
      assert.strictEqual(yield* one.registry.release(epoch, { _tag: "Waiting", until: left.until }), "Ready")
    }))

  test("are removed long after their end, unless a call of an unfinished session may still take the answer", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(home)
      const { id } = yield* one.ask()
      const given = yield* to(two, id, once)
      const { until } = yield* one.pending.suspendOf(home, "nothing else runs")
      yield* one.registry.release(epoch, { _tag: "Waiting", until })
      const prune = ApprovalTables.prune(sql, Infinity, 10)
      assert.strictEqual(yield* prune, 0)
      yield* two.pending.answer(ada, given)
      assert.strictEqual(yield* prune, 0)
      yield* one.registry.release(yield* one.registry.activate(home), { _tag: "Nothing" })
      assert.strictEqual(yield* prune, 1)
    }))

  test("of a session that another process took are not written", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id } = yield* one.ask()
      yield* to(two, id, once)
      yield* sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${one.registry.runner.name}`
      yield* two.registry.activate(home)
      const late = yield* one.ask({ callId: "late" })
      assert.deepStrictEqual(yield* Fiber.join(late.fiber), {
        _tag: "Suspended",
        reason: "the session belongs to another process"
      })
      // it no longer ends what is not its own
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual((yield* two.pending.list(ada)).open.map((it) => it.id), [id])
      yield* two.pending.answer(ada, yield* to(two, id, once))
      yield* one.pending.refresh(home)
      assert.deepStrictEqual(yield* sql`SELECT taken FROM tool_executor_approvals`, [{ taken: false }])
    }))

  test("are not withdrawn by a call of an earlier epoch, also where its process holds the session again", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const take = ({ registry }: Runner, from: Runner) =>
        Effect.andThen(
          sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${from.registry.runner.name}`,
          registry.activate(home)
        )
      yield* one.registry.activate(home)
      const first = yield* one.ask()
      yield* to(two, first.id, once)
      yield* take(two, one)
      yield* take(one, two)
      yield* Fiber.interrupt(first.fiber)
      const other = yield* one.ask({ callId: "other" })
      yield* to(two, other.id, once)
      yield* Fiber.interrupt(other.fiber)
      // ends are written in their order
      yield* until(Effect.map(two.pending.list(ada), ({ ended }) => ended.some(({ id }) => id === other.id)))
      assert.deepStrictEqual((yield* two.pending.list(ada)).open.map(({ id }) => id), [first.id])
      const again = yield* one.ask(first.request)
      yield* one.pending.answer(ada, yield* to(one, first.id, once))
      assert.strictEqual((yield* Fiber.join(again.fiber))._tag, "Approved")
    }))

  test("are resolved by an answer that comes before their process knows that they are written", ({ sql, two }) =>
    Effect.gen(function*() {
      const answered = Effect.gen(function*() {
        const [open] = (yield* two.pending.list(ada)).open
        yield* two.pending.answer(ada, { id: open!.id, hash: open!.hash, answer: once })
        yield* one.pending.refresh(home)
      })
      const one: Runner = yield* runner(sql, {}, undefined, Effect.orDie(Effect.suspend(() => answered)))
      yield* one.registry.activate(home)
      const { fiber } = yield* one.ask()
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Approved", person: "ada" })
    }))

  test("end as expired where nobody answered in time, whoever lists them", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id } = yield* one.ask()
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Denied", by: "timeout" })
      const { ended, open } = yield* two.pending.list(ada)
      assert.deepStrictEqual([open.length, ended.map((it) => [it.id, it.how])], [0, [[id, "expired"]]])
      const late = yield* Effect.flip(two.pending.answer(ada, { id, hash: "", answer: once }))
      assert.deepInclude(late, { _tag: "AlreadyEnded", how: "expired" })
    }), { timeout: "100 millis" })

  test("are withdrawn with their call, also where a process died before it said so", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const gone = yield* one.ask()
      yield* to(two, gone.id, once)
      yield* Fiber.interrupt(gone.fiber)
      yield* until(Effect.map(two.pending.list(ada), ({ ended }) => ended[0]?.how === "withdrawn"))
      const stray = yield* one.ask({ callId: "stray" })
      yield* to(two, stray.id, once)
      yield* sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${one.registry.runner.name}`
      yield* two.registry.activate(home)
      const left = yield* two.pending.suspendOf(home, "nothing else runs")
      assert.deepStrictEqual(left, { pending: 0, until: undefined, isStored: true })
      const { ended, open } = yield* one.pending.list(ada)
      assert.deepStrictEqual(open, [])
      assert.deepStrictEqual(ended.map(({ how, id }) => [id, how]), [[stray.id, "withdrawn"], [gone.id, "withdrawn"]])
    }))

  test("of other users do not exist for those who may not answer them", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { id } = yield* one.ask()
      const given = yield* to(two, id, once)
      for (const { pending } of [one, two]) {
        assert.deepStrictEqual(yield* pending.list(eve), { open: [], ended: [], pending: 0 })
        assert.isTrue(Option.isNone(yield* pending.get(eve, id)))
        for (const strange of [given, { ...given, id: "a\0b" }]) {
          assert.strictEqual((yield* Effect.flip(pending.answer(eve, strange)))._tag, "NotFound")
          assert.strictEqual((yield* Effect.flip(pending.answerAll(eve, [strange])))._tag, "NotFound")
        }
      }
      assert.strictEqual((yield* two.pending.list(ada)).open.length, 1)
    }))

  test("take one of two answers at the same moment, 200 times, and tell the other who was first and what they said", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const asked = yield* Effect.forEach(
        Array.from({ length: 200 }, (_, n) => `c${n}`),
        (callId) => one.ask({ callId, targets: [{ text: callId }] })
      )
      yield* until(Effect.map(two.pending.list(cy), ({ pending }) => pending === 200))
      const hashes = new Map((yield* two.pending.list(cy)).open.map((it) => [it.id, it.hash]))
      const race = Effect.fnUntraced(function*(id: string, n: number) {
        const given = (answer: Approvals.Answer) => ({ id, hash: hashes.get(id)!, answer })
        const both = [
          Effect.exit(one.pending.answer(ada, given(once))),
          Effect.exit(two.pending.answer(cy, given(deny)))
        ]
        const exits = yield* Effect.all(n % 2 === 0 ? both : both.toReversed(), { concurrency: 2 })
        const won = exits.filter((it) => it._tag === "Success")
        assert.strictEqual(won.length, 1)
        const [first] = won
        if (first?._tag !== "Success") return assert.fail("nobody was first")
        const lost = exits.find((it) => it._tag === "Failure")!
        const error = yield* Effect.flip(lost)
        const { answer, by, endedAt: at, how, reason } = first.value
        const said = { how, by, answer, at, ...reason === undefined ? {} : { reason } }
        assert.deepInclude(error, { _tag: "AlreadyEnded", id, ...said } as never)
        return how
      })
      const hows = yield* Effect.forEach(asked, ({ id }, n) => race(id, n), { concurrency: 8 })
      yield* one.pending.refresh(home)
      const ends = yield* Effect.forEach(asked, ({ fiber }) => Fiber.join(fiber))
      assert.deepStrictEqual(ends.map((it) => it._tag === "Approved" ? "approved" : "denied"), hows as never)
    }))

  test("are answered together or not at all, also where two do so at once", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      for (let n = 0; n < 10; n++) {
        const asked = yield* Effect.forEach([0, 1, 2, 3], (part) => one.ask({ callId: `c${n}-${part}` }))
        const given = yield* Effect.forEach(asked, ({ id }) => to(two, id, once))
        const exits = yield* Effect.all([
          Effect.exit(one.pending.answerAll(ada, given.slice(0, 3))),
          Effect.exit(two.pending.answerAll(cy, given.slice(1).toReversed()))
        ], { concurrency: 2 })
        assert.deepStrictEqual(exits.map((it) => it._tag).sort(), ["Failure", "Success"])
        const left = (yield* two.pending.list(cy)).open
        assert.strictEqual(left.length, 1)
        yield* two.pending.answer(cy, { id: left[0]!.id, hash: left[0]!.hash, answer: deny })
      }
    }))

  test("are stored without the secrets of a call, which edited arguments and grants get back where it waits", ({ sql, two }) =>
    Effect.gen(function*() {
      const one = yield* runner(sql, {}, tools)
      yield* one.registry.activate(home)
      const args = { card: "4111-1111", to: "the shop" }
      const about = { tool: "pay", args, targets: [{ text: "card 4111-1111" }] }
      const edit = (params: typeof args): Approvals.Answer => ({ _tag: "ApproveOnce", params })
      const first = yield* one.ask(about)
      const given = yield* to(two, first.id, edit({ card: mark, to: "the other shop" }))
      // this process does not know the tool, as in a rolling upgrade
      const moved = yield* Effect.flip(two.pending.answer(ada, { ...given, answer: edit({ card: "x", to: mark }) }))
      assert.deepInclude(moved, { _tag: "NotAnswered" })
      yield* two.pending.answer(ada, given)
      yield* one.pending.refresh(home)
      assert.deepInclude(yield* Fiber.join(first.fiber), { edited: { params: { ...args, to: "the other shop" } } })

      const second = yield* one.ask({ ...about, callId: "c2" })
      yield* two.pending.answer(ada, yield* to(two, second.id, { _tag: "ApproveForScope" }))
      yield* one.pending.refresh(home)
      yield* Fiber.await(second.fiber)
      const again = yield* one.ask(second.request)
      for (const { fiber } of [second, again]) {
        const resolution = yield* Fiber.join(fiber)
        assert.deepStrictEqual(resolution._tag === "Approved" ? resolution.grant?.targets : [], ["card 4111-1111"])
      }
      const [stored] = yield* sql<{ readonly text: string }>`
        SELECT string_agg(it::text, '') AS text FROM tool_executor_approvals AS it`
      assert.include(stored?.text, mark)
      assert.notInclude(stored!.text, "4111")
    }))

  test("show whole files where the call waits, and elsewhere the diff, which says so", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const changes = [{ path: "a.txt", before: "a\n", after: "b\n" }]
      const diff = "-a\n+b\n"
      const { id } = yield* one.ask({ preview: { _tag: "Diff", diff, changes } })
      const { hash } = yield* to(two, id, once)
      const preview = Effect.fnUntraced(function*({ pending }: Runner) {
        const shown = Option.getOrThrow(yield* pending.get(ada, id))
        assert.deepInclude(shown, { hash, args: { path: "a.txt" } })
        return "preview" in shown ? shown.preview : null
      })
      const here = yield* preview(one)
      assert.strictEqual(here?._tag, "Files")
      const files = here?._tag === "Files" ? here.files : []
      assert.deepStrictEqual(yield* preview(two), { _tag: "Diff", diff, files })
      const at = { id, index: 0, side: "after", from: 0 } as const
      assert.deepStrictEqual(yield* one.pending.part(ada, at), Option.some({ text: "b\n" }))
      assert.isTrue(Option.isNone(yield* two.pending.part(ada, at)))
      assert.isTrue(Option.isNone(yield* one.pending.part(eve, at)))
    }))

  test("cost at most a kilobyte and a half each", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const path = "src/some/folder/with/a/long/name/of/a/file.ts"
      const uuid = "6d8f0c1e-0000-4000-8000-000000000001"
      yield* Effect.forEach(Array.from({ length: 50 }, (_, n) => `call_${n}_${uuid}`), (callId) =>
        one.ask({ args: { path }, batch: uuid, callId, operation: uuid, process: uuid, targets: [{ text: path }] }))
      yield* until(Effect.map(two.pending.count, (it) =>
        it === 50))
      const [size] = yield* sql<{ readonly row: number }>`
        SELECT max(pg_column_size(it.*)) AS row FROM tool_executor_approvals AS it`
      assert.isBelow(size!.row, 1_536)
    }))

  test("that cannot be stored wait until they can, and nobody is told of an answer that was not", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id } = yield* one.ask()
      const given = yield* to(two, id, once)
      yield* away(sql)
      const late = yield* one.ask({ callId: "late" })
      for (const said of [two.pending.answer(ada, given), two.pending.answerAll(ada, [given]), two.pending.list(ada)]) {
        assert.strictEqual(
          (yield* Effect.flip(said as Effect.Effect<unknown, { readonly _tag: string }>))._tag,
          "Unavailable"
        )
      }
      assert.isUndefined(late.fiber.pollUnsafe())
      yield* back(sql)
      for (const it of [id, late.id]) yield* two.pending.answer(ada, yield* to(two, it, once))
      yield* one.pending.refresh(home)
      for (const it of [fiber, late.fiber]) assert.deepInclude(yield* Fiber.join(it), { _tag: "Approved" })
    }))

  test("that come again keep their answer while the table cannot be read", ({ one, sql, two }) =>
    Effect.gen(function*() {
      const epoch = yield* one.registry.activate(home)
      const [yes, no, open] = yield* Effect.forEach([once, deny, once], (answer, at) =>
        Effect.gen(function*() {
          const { id, request } = yield* one.ask({ callId: `${at}` })
          return { request, given: yield* to(two, id, answer) }
        }))
      const { until } = yield* one.pending.suspendOf(home, "the session moves")
      yield* one.registry.release(epoch, { _tag: "Waiting", until })
      for (const { given } of [yes!, no!]) yield* two.pending.answer(ada, given)
      yield* two.registry.activate(home)
      yield* away(sql)
      const [first, second, third] = yield* Effect.forEach([yes!, no!, open!], ({ request }) => two.ask(request))
      yield* back(sql)
      assert.deepInclude(yield* Fiber.join(first!.fiber), { _tag: "Approved", person: "ada" })
      assert.deepInclude(yield* Fiber.join(second!.fiber), { _tag: "Denied", by: "user", reason: "too late" })
      yield* two.pending.answer(ada, open!.given)
      assert.deepInclude(yield* Fiber.join(third!.fiber), { _tag: "Approved", person: "ada" })
    }))

  test("that cannot be stored are suspended with their session, which is not stored, and end with their call", ({ one, sql, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      yield* away(sql)
      const { fiber, request } = yield* one.ask()
      assert.isFalse((yield* one.pending.suspendOf(home, "nothing else runs")).isStored)
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Suspended" })
      const cancelled = yield* one.ask({ callId: "cancelled" })
      yield* Fiber.interrupt(cancelled.fiber)
      yield* back(sql)
      const again = yield* one.ask(request)
      yield* two.pending.answer(ada, yield* to(two, request.id, once))
      yield* one.pending.refresh(home)
      assert.strictEqual((yield* Fiber.join(again.fiber))._tag, "Approved")
      yield* until(Effect.map(two.pending.list(cy), ({ open }) => open.length === 0))
    }))
})

const away = (sql: SqlClient.SqlClient) => sql`ALTER TABLE tool_executor_approvals RENAME TO away`
const back = (sql: SqlClient.SqlClient) => sql`ALTER TABLE away RENAME TO tool_executor_approvals`
