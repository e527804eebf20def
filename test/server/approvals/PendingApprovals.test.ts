/** Approval requests of all sessions: who sees and answers them, and how they end. */
import { assert, describe, it } from "@effect/vitest"
import type { Approvals } from "effect-tool-executor"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as ApiApprovals from "../../../src/server/api/ApiApprovals.ts"
import * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import * as LiveLog from "../../../src/server/live/LiveLog.ts"
import { ask, layer, user } from "../../support/Asking.ts"

const ada = user("ada", ["bob"])
const cy = user("cy", ["*"])
const eve = user("eve", ["eve"])

const once: Approvals.Answer = { _tag: "ApproveOnce" }
const deny: Approvals.Answer = { _tag: "Deny", reason: "no" }

/** An answer to what `ada` sees now. */
const to = Effect.fnUntraced(function*(id: string, answer: Approvals.Answer) {
  const { open } = yield* PendingApprovals.PendingApprovals.use((it) => it.list(cy))
  return { id, hash: open.find((it) => it.id === id)!.hash, answer }
})

const endedOf = (id: string) =>
  Effect.map(
    PendingApprovals.PendingApprovals.use((it) => it.list(cy)),
    ({ ended }) => ended.find((it) => it.id === id)
  )

describe("PendingApprovals", () => {
  it.effect("answers once: the second learns who was first, how and when", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const { fiber, id } = yield* ask()
      const given = yield* to(id, once)
      yield* TestClock.adjust("1 minute")
      const ended = yield* approvals.answer(ada, given)
      assert.deepInclude(ended, { id, how: "approved", answer: "ApproveOnce", by: "ada", endedAt: 60_000 })
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Approved", person: "ada" })
      yield* TestClock.adjust("1 minute")
      const second = yield* Effect.flip(approvals.answer(cy, { ...given, answer: deny }))
      assert.deepInclude(second, { _tag: "AlreadyEnded", id, how: "approved", by: "ada", at: 60_000 })
      assert.strictEqual(second.message, "It is resolved: it was approved by ada.")
      assert.deepStrictEqual(yield* endedOf(id), ended)
    }).pipe(Effect.provide(layer())), { tags: ["SV10"] })

  it.effect("is hidden from users who may not approve, open or over", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const { id } = yield* ask()
      const given = yield* to(id, once)
      const strange = { ...given, id: "00000000-0000-4000-8000-000000000000" }
      const asEve = Effect.gen(function*() {
        assert.deepStrictEqual(yield* approvals.list(eve), { open: [], ended: [], pending: 0 })
        assert.isTrue(Option.isNone(yield* approvals.get(eve, id)))
        assert.isTrue(Option.isNone(yield* approvals.part(eve, { id, index: 0, side: "after", from: 0 })))
        for (const it of [given, strange]) {
          const one = yield* Effect.flip(approvals.answer(eve, it))
          const all = yield* Effect.flip(approvals.answerAll(eve, [it]))
          for (const error of [one, all]) {
            assert.strictEqual(error._tag, "NotFound")
            assert.strictEqual(error.detail, `Approval request not found: ${it.id}. Nothing was answered.`)
          }
        }
      })
      yield* asEve
      // bob is not named, and may not approve what is his own
      assert.strictEqual((yield* approvals.list(user("bob", []))).open.length, 0)
      yield* approvals.answer(ada, given)
      yield* asEve
    }).pipe(Effect.provide(layer())), { tags: ["SV10"] })

  it.effect(
    "answers several in one step: all, or none where one is stale, wrong or somebody else's",
    () =>
      Effect.gen(function*() {
        const approvals = yield* PendingApprovals.PendingApprovals
        const asked = yield* Effect.forEach(["a", "b", "c"], (callId) => ask({ callId }))
        const [a, b, c] = yield* Effect.forEach(asked, ({ id }) => to(id, once))
        const foreign = yield* ask({ principal: "dan/home" })
        yield* approvals.answer(ada, { ...a!, answer: deny })
        const none = Effect.fnUntraced(
          function*(given: ReadonlyArray<PendingApprovals.Given>, reasons: ReadonlyArray<string>) {
            const error = yield* Effect.flip(approvals.answerAll(ada, given))
            assert.deepStrictEqual(error._tag === "NotAnswered" ? error.errors.map((it) => it.reason) : [], reasons)
            assert.strictEqual((yield* approvals.list(ada)).open.length, 2)
            assert.isUndefined(asked[1]!.fiber.pollUnsafe())
            return error
          }
        )
        const stale = yield* none([b!, a!, c!], ["AlreadyEnded"])
        assert.deepInclude(stale, {
          errors: [{
            id: a!.id,
            reason: "AlreadyEnded",
            problem: "It is resolved: it was denied by ada.",
            by: "ada",
            answer: "Deny",
            at: 0
          }]
        })
        yield* none([b!, { ...c!, hash: a!.hash }], ["NotTheSame"])
        yield* none([b!, b!], ["NotAnAnswer"])
        yield* none([b!, { ...c!, answer: { _tag: "ApproveForDuration", duration: "for ever" } }], ["NoDuration"])
        yield* none([b!, { ...c!, answer: { _tag: "Yes" } as never }], ["NotAnAnswer"])
        yield* none([b!, { ...c!, id: foreign.id }], [])
        const ended = yield* approvals.answerAll(ada, [c!, { ...b!, answer: deny }])
        assert.deepStrictEqual(ended.map(({ how, id }) => [id, how]), [[c!.id, "approved"], [b!.id, "denied"]])
        assert.strictEqual(yield* approvals.count, 1)
      }).pipe(Effect.provide(layer())),
    { tags: ["SV11"] }
  )

  it.effect("ends what an answer to another covers, but not what is answered beside it", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const first = yield* ask()
      const second = yield* ask({ callId: "again" })
      const third = yield* ask({ callId: "once more" })
      const given = [yield* to(first.id, { _tag: "ApproveForScope" }), yield* to(second.id, deny)]
      const ended = yield* approvals.answerAll(ada, given)
      assert.deepStrictEqual(ended.map(({ how }) => how), ["approved", "denied"])
      assert.deepInclude(yield* endedOf(third.id), { how: "covered", by: "ada", answer: "ApproveForScope" })
      assert.deepInclude(yield* Fiber.join(third.fiber), { _tag: "Approved", isOwn: false, person: "ada" })
      assert.deepInclude(yield* Fiber.join(second.fiber), { _tag: "Denied", by: "user", person: "ada" })
    }).pipe(Effect.provide(layer())))

  it.effect("takes a wider pattern that it offers, which ends what it covers, and no other", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const wider = ["src/*"]
      const about = (text: string) => ask({ callId: text, targets: [{ text }], wider })
      const [first, inside, outside] = yield* Effect.all([about("src/a"), about("src/b"), about("test/c")])
      const scope = (pattern: string): Approvals.Answer => ({ _tag: "ApproveForScope", scope: { pattern } })
      const refused = yield* Effect.flip(approvals.answer(ada, yield* to(first.id, scope("*"))))
      assert.deepInclude(refused, { _tag: "NotAnswered" })
      assert.strictEqual(yield* approvals.count, 3)
      yield* approvals.answer(ada, yield* to(first.id, scope("src/*")))
      assert.deepInclude(yield* endedOf(inside.id), { how: "covered", by: "ada" })
      const resolution = yield* Fiber.join(inside.fiber)
      assert.deepInclude(resolution._tag === "Approved" ? resolution.grant : {}, {
        targets: ["src/a"],
        patterns: wider
      })
      assert.strictEqual(yield* approvals.count, 1)
      yield* approvals.answer(ada, yield* to(outside.id, deny))
    }).pipe(Effect.provide(layer())))

  it.effect("takes edited arguments, but not of a call that is running", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const { fiber, id } = yield* ask()
      const running = yield* ask({ isRunning: true })
      const edited: Approvals.Answer = { _tag: "ApproveOnce", params: { path: "b.txt" } }
      const refused = yield* Effect.flip(approvals.answer(ada, yield* to(running.id, edited)))
      assert.deepInclude(refused, { _tag: "NotAnswered" })
      assert.include((yield* approvals.answer(ada, yield* to(id, edited))).next, "edited arguments")
      assert.deepInclude(yield* Fiber.join(fiber), { edited: { params: { path: "b.txt" } } })
    }).pipe(Effect.provide(layer())))

  it.effect("expires when the host says, which is there to see with what can be done", () =>
    Effect.gen(function*() {
      const { fiber, id } = yield* ask()
      const [open] = (yield* PendingApprovals.PendingApprovals.use((it) => it.list(ada))).open
      assert.strictEqual(open!.expiresAt, 3_600_000)
      yield* TestClock.adjust("59 minutes")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Denied", by: "timeout" })
      assert.deepInclude(yield* endedOf(id), {
        how: "expired",
        endedAt: 3_600_000,
        next:
          "Nobody answered in time, and the call was denied. Ask the model to try again, or allow the call in the policy."
      })
    }).pipe(Effect.provide(layer({ timeout: "1 hour" }))))

  it.effect("waits however long it takes where the host says so", () =>
    Effect.gen(function*() {
      const { fiber } = yield* ask()
      yield* TestClock.adjust("400 days")
      assert.isUndefined(fiber.pollUnsafe())
      const [open] = (yield* PendingApprovals.PendingApprovals.use((it) => it.list(ada))).open
      assert.strictEqual(open!.expiresAt, "unlimited")
    }).pipe(Effect.provide(layer({ timeout: "unlimited" }))))

  it.effect("is withdrawn with its call, suspended with the server, closed with the layer", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(layer(), scope)
      yield* Effect.gen(function*() {
        const approvals = yield* PendingApprovals.PendingApprovals
        const gone = yield* ask()
        yield* Fiber.interrupt(gone.fiber)
        assert.deepInclude(yield* endedOf(gone.id), { how: "withdrawn" })
        const left = yield* ask()
        yield* approvals.suspend("the server stops")
        assert.deepStrictEqual(yield* Fiber.join(left.fiber), { _tag: "Suspended", reason: "the server stops" })
        assert.deepInclude(yield* endedOf(left.id), { how: "suspended", reason: "the server stops" })
        const late = yield* ask()
        assert.strictEqual((yield* Fiber.join(late.fiber))._tag, "Suspended")
        assert.strictEqual(yield* approvals.count, 0)
      }).pipe(Effect.provide(context))
      const other = yield* Layer.buildWithScope(layer(), scope)
      yield* Effect.gen(function*() {
        const { fiber, id } = yield* ask()
        yield* Scope.close(scope, Exit.void)
        assert.deepInclude(yield* Fiber.join(fiber), { by: "closed" })
        assert.deepInclude(yield* endedOf(id), { how: "closed" })
      }).pipe(Effect.provide(other))
    }))

  it.effect("takes no answer to what was shown before under the same id", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const asked = {
        id: "known",
        preview: { _tag: "Diff" as const, diff: "-a\n+b\n" }
      }
      const first = yield* ask(asked)
      const given = yield* to("known", once)
      yield* Fiber.interrupt(first.fiber)
      const changes = [{ path: "a.txt", before: "a\n", after: "b\n" }]
      const others: ReadonlyArray<Partial<Approvals.NewRequest>> = [
        { preview: { _tag: "Diff", diff: "-a\n+c\n" } },
        { preview: { _tag: "None", because: "nobody knows" } },
        { preview: { _tag: "Diff", diff: "-a\n+b\n", changes } },
        { targets: [{ text: "a.txt" }, { text: "b.txt" }] },
        { targets: [{ text: "a.txt", kind: "protected" }] },
        { why: "it may have happened already" },
        { args: { path: "b.txt" } },
        { tool: "remove" },
        { agentPath: ["helper"] },
        { principal: "bob/office" },
        { isRunning: true },
        { revision: "2" }
      ]
      for (const more of others) {
        const again = yield* ask({ ...asked, ...more })
        assert.isUndefined(yield* endedOf("known"), "it is open again")
        const error = yield* Effect.flip(approvals.answer(ada, given))
        assert.deepInclude(error, { _tag: "NotAnswered" }, JSON.stringify(more))
        yield* Fiber.interrupt(again.fiber)
      }
      const same = yield* ask(asked)
      yield* approvals.answer(ada, given)
      assert.strictEqual((yield* Fiber.join(same.fiber))._tag, "Approved")
    }).pipe(Effect.provide(layer())), { tags: ["SV10"] })

  it.effect("keeps so many of those that are over, for so long", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const ids = []
      for (let n = 0; n < 5; n++) {
        const { id } = yield* ask({ callId: `c${n}` })
        yield* approvals.answer(ada, yield* to(id, deny))
        ids.push(id)
        yield* TestClock.adjust("1 minute")
      }
      const kept = Effect.map(approvals.list(ada), ({ ended }) => ended.map((it) => it.id))
      assert.deepStrictEqual(yield* kept, ids.slice(2).reverse())
      yield* TestClock.adjust("7 minutes")
      assert.deepStrictEqual(yield* kept, ids.slice(3).reverse())
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(yield* kept, [])
      const { id } = yield* ask()
      const given = yield* to(id, deny)
      assert.strictEqual((yield* approvals.answerAll(ada, [given]))[0]!.how, "denied")
    }).pipe(Effect.provide(layer({ maxEnded: 3, keepEnded: "10 minutes" }))))

  it.effect("shows no request that cannot be shown faithfully", () =>
    Effect.gen(function*() {
      const deep = Array.from({ length: 2_000 }).reduce<unknown>((inner) => [inner], 1)
      for (const args of [deep, new Map([["a", 1]]), 1n, { n: Number.NaN }]) {
        const { fiber } = yield* ask({ args })
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Denied", by: "noApprover" })
      }
      assert.strictEqual(yield* PendingApprovals.PendingApprovals.use((it) => it.count), 0)
      const plain = yield* ask({ args: undefined })
      assert.isUndefined(plain.fiber.pollUnsafe())
    }).pipe(Effect.provide(layer())), { tags: ["SV12"] })

  it.effect("is told live, to those who may see it, and everything it sends is as the API says", () =>
    Effect.gen(function*() {
      const approvals = yield* PendingApprovals.PendingApprovals
      const log = yield* LiveLog.LiveLog
      const start = yield* log.cursor
      const { id } = yield* ask({ args: { text: `${"x".repeat(290)}😀${"y".repeat(1_000)}` } })
      const [summary] = (yield* approvals.list(ada)).open
      const whole = Option.getOrThrow(yield* approvals.get(ada, id))
      Schema.encodeUnknownSync(ApiApprovals.ApprovalRequest)(whole)
      assert.deepStrictEqual("parameters" in whole && whole.parameters, { type: "object" })
      // not half of the face
      assert.strictEqual(summary!.summary, `{"text":"${"x".repeat(290)}`)
      const ended = yield* approvals.answer(ada, yield* to(id, deny))
      assert.deepStrictEqual<unknown>(Option.getOrThrow(yield* approvals.get(ada, id)), ended)
      const seen = yield* log.stream(start, (user) => user === "bob").pipe(
        Stream.filter(({ data }) => data._tag !== "Heartbeat"),
        Stream.take(2),
        Stream.runCollect
      )
      assert.deepStrictEqual<ReadonlyArray<unknown>>(seen.map(({ data }) => data), [
        { _tag: "ApprovalRequested", approval: summary! },
        { _tag: "ApprovalResolved", approval: ended }
      ])
      Schema.encodeUnknownSync(Schema.Array(ApiApprovals.LiveSse))(seen)
    }).pipe(Effect.provide(layer({ schemaOf: () => ({ type: "object" }) }))))

  it.effect("names the options that are wrong", () =>
    Effect.gen(function*() {
      const wrong = layer({ timeout: "soon" as never, maxEnded: -1, keepEnded: -1 })
      const error = yield* Effect.flip(Layer.build(wrong))
      assert.deepStrictEqual(error.problems.map(({ path }) => path), ["timeout", "maxEnded", "keepEnded"])
    }))
})
