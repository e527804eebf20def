/** Who approves on a server: over rows in memory, and over rows that several processes share. */
import { assert, layer } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import type { ApiAccess } from "effect-tool-executor/server"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import * as LiveLog from "../../../src/server/live/LiveLog.ts"
import * as Access from "../../../src/server/users/Access.ts"
import { randomFrom, type SeededRandom } from "../../../src/testing/SeededRandom.ts"
import { approval, user } from "../../support/Asking.ts"
import * as Postgres from "../../support/Postgres.ts"
import { seeds, timeout } from "../../support/seeds.ts"
import { type Runner, world } from "../../support/SharedApprovals.ts"
import { until } from "../../support/silentProxy.ts"

const home = "bob/home"
const once: Approvals.Answer = { _tag: "ApproveOnce" }
const scope: Approvals.Answer = { _tag: "ApproveForScope" }

const ada = user("ada", ["*"])
const cy = { ...user("cy", ["*"]), roles: ["finance"] }
const bob = user("bob", ["*"])
const eve = user("eve", ["eve"])

type Service = PendingApprovals.PendingApprovals["Service"]

/** What an answer gave: how it ended the request, or why it was not taken. */
const toldOf = (pending: Service, by: ApiAccess.User, given: PendingApprovals.Given) =>
  Effect.match(pending.answer(by, given), {
    onFailure: (problem) => problem._tag === "NotAnswered" ? problem.errors[0]!.reason : problem._tag,
    onSuccess: ({ how }) => how as string
  })

const rowOf = (pending: Service, id: string) =>
  Effect.map(pending.list(ada), ({ open }) => open.find((it) => it.id === id))

const givenTo = Effect.fnUntraced(function*(pending: Service, id: string, answer = once) {
  yield* until(Effect.map(rowOf(pending, id), (it) => it !== undefined))
  return { id, hash: (yield* rowOf(pending, id))!.hash, answer }
})

/** Hears of approvals. */
const noted = (heard: Array<string>, all: ReadonlyArray<{ readonly person: string }>) => {
  heard.push(...all.map((it) => it.person))
  return Effect.void
}

layer(Postgres.layer)("requests that several people approve", (it) => {
  const test = (
    name: string,
    body: (it: Effect.Success<ReturnType<typeof world>>) => Effect.Effect<void, unknown, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(name, () => Effect.scoped(Effect.flatMap(world(), body)).pipe(Effect.provide(Postgres.realTime)), options)

  const four = { approvers: [{ count: 2 }] }

  test("keep an approval whose call stopped waiting before it heard of it, and waits again", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const { fiber, id, request } = yield* one.ask(four)
      assert.strictEqual(yield* toldOf(two.pending, ada, yield* givenTo(two.pending, id)), "waiting")
      yield* Fiber.interrupt(fiber)
      yield* until(Effect.map(rowOf(two.pending, id), (it) => it === undefined))
      const again = yield* Effect.forkScoped(one.approvals.submit(request), { startImmediately: true })
      const given = yield* givenTo(two.pending, id)
      assert.strictEqual(yield* toldOf(two.pending, ada, given), "AlreadyApproved")
      assert.strictEqual(yield* toldOf(two.pending, cy, given), "approved")
      yield* one.pending.refresh(home)
      const resolution = yield* Fiber.join(again)
      assert.strictEqual(resolution._tag, "Approved")
      if (resolution._tag === "Approved") {
        assert.sameMembers(resolution.approvals!.map((it) => it.person), ["ada", "cy"])
      }
    }))

  test(
    "take two people at once on two servers as two approvals, and one person twice as one",
    ({ one, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate(home)
        for (let round = 0; round < 10; round++) {
          const { fiber, id } = yield* one.ask({ ...four, callId: `c${round}` })
          const given = yield* givenTo(two.pending, id)
          const both = yield* Effect.all([toldOf(one.pending, ada, given), toldOf(two.pending, cy, given)], {
            concurrency: 2
          })
          assert.sameMembers(both, ["approved", "waiting"])
          yield* one.pending.refresh(home)
          const resolution = yield* Fiber.join(fiber)
          assert.strictEqual(resolution._tag, "Approved")
          if (resolution._tag !== "Approved") return
          assert.sameMembers(resolution.approvals!.map((it) => it.person), ["ada", "cy"])
          const other = yield* one.ask({ ...four, callId: `d${round}` })
          const twice = yield* givenTo(two.pending, other.id)
          const same = yield* Effect.all([toldOf(one.pending, ada, twice), toldOf(two.pending, ada, twice)], {
            concurrency: 2
          })
          assert.sameMembers(same, ["waiting", "AlreadyApproved"])
        }
      }),
    { tags: ["AP19"] }
  )

  test(
    "keep the first approval over a restart, also while no server holds the session",
    ({ one, sql, two }) =>
      Effect.gen(function*() {
        const epoch = yield* one.registry.activate(home)
        const { id, request } = yield* one.ask(four)
        assert.strictEqual(yield* toldOf(two.pending, ada, yield* givenTo(two.pending, id)), "waiting")
        const { until: end } = yield* one.pending.suspendOf(home, "nothing else runs")
        yield* one.registry.release(epoch, { _tag: "Waiting", until: end })
        yield* one.stop
        const seen = yield* rowOf(two.pending, id)
        assert.deepStrictEqual(seen?.approvals?.map((it) => it.person), ["ada"])
        assert.strictEqual(yield* toldOf(two.pending, ada, yield* givenTo(two.pending, id)), "AlreadyApproved")
        assert.deepStrictEqual(yield* sql`SELECT woken FROM tool_executor_sessions`, [{ woken: false }])
        // the call waits again, elsewhere
        yield* two.registry.activate(home)
        const heard: Array<string> = []
        const fiber = yield* Effect.forkScoped(
          two.approvals.submit(request, undefined, (all) => noted(heard, all)),
          { startImmediately: true }
        )
        yield* until(Effect.sync(() => heard.length > 0))
        assert.deepStrictEqual(heard, ["ada"])
        assert.strictEqual(yield* toldOf(two.pending, cy, yield* givenTo(two.pending, id)), "approved")
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "Approved", person: "cy" })
      }),
    { tags: ["AP19"] }
  )

  test("are heard where the call waits, whoever answers where", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const heard: Array<string> = []
      const request = yield* one.approvals.request(approval(four))
      yield* Effect.forkScoped(
        one.approvals.submit(request, undefined, (all) => noted(heard, all)),
        { startImmediately: true }
      )
      yield* toldOf(two.pending, ada, yield* givenTo(two.pending, request.id))
      yield* one.pending.refresh(home)
      assert.deepStrictEqual(heard, ["ada"])
      assert.deepStrictEqual((yield* one.approvals.list).map((it) => it.approvals?.length), [1])
    }))

  test("are answered together or not at all, and not twice by one person", ({ one, two }) =>
    Effect.gen(function*() {
      yield* one.registry.activate(home)
      const a = yield* one.ask({ ...four, callId: "a" })
      const b = yield* one.ask({ approvers: [{ people: ["cy"] }], callId: "b", args: { path: "b" } })
      const all = [yield* givenTo(two.pending, a.id), yield* givenTo(two.pending, b.id)]
      const refused = yield* Effect.flip(two.pending.answerAll(ada, all))
      assert.deepInclude(refused, { _tag: "NotAnswered" })
      assert.deepStrictEqual("errors" in refused ? refused.errors.map((it) => [it.id, it.reason]) : [], [[
        b.id,
        "NotNamed"
      ]])
      assert.isUndefined((yield* rowOf(two.pending, a.id))!.approvals)
      const told = yield* two.pending.answerAll(cy, all)
      assert.deepStrictEqual(told.map(({ how }) => how), ["waiting", "approved"])
      const again = yield* Effect.flip(one.pending.answerAll(cy, all.slice(0, 1)))
      assert.deepStrictEqual("errors" in again ? again.errors.map((it) => it.reason) : [], ["AlreadyApproved"])
    }))

  test(
    "are not covered by a grant of one person, nor by an answer to what was shown before",
    ({ one, two }) =>
      Effect.gen(function*() {
        yield* one.registry.activate(home)
        const plain = yield* one.ask({ callId: "plain" })
        const several = yield* one.ask({ ...four, callId: "several" })
        const given = yield* givenTo(two.pending, plain.id, { ...scope, scope: "tool" } as Approvals.Answer)
        const first = yield* givenTo(two.pending, several.id)
        assert.strictEqual(yield* toldOf(two.pending, ada, given), "approved")
        assert.isDefined(yield* rowOf(two.pending, several.id))
        assert.strictEqual(yield* toldOf(one.pending, ada, first), "waiting")
        // the same person with another token, and another content under the same id
        assert.strictEqual(yield* toldOf(two.pending, user("ada", ["bob"]), first), "AlreadyApproved")
        assert.strictEqual(yield* toldOf(two.pending, cy, { ...first, hash: "0".repeat(64) }), "NotTheSame")
        assert.strictEqual(yield* toldOf(two.pending, eve, first), "NotFound")
        assert.strictEqual(yield* toldOf(two.pending, bob, first), "NotNamed")
        assert.strictEqual(yield* toldOf(two.pending, cy, first), "approved")
      }),
    { tags: ["AP18"] }
  )

  it.effect("do not count people who lost the role or the right between two approvals", () =>
    Effect.gen(function*() {
      const users = new Map([["ada", ada], ["cy", cy], ["dora", user("dora", ["*"])]])
      const access = Access.layerFrom({
        userOf: () => Effect.succeedNone,
        mayRun: () => Effect.succeed(true),
        userNamed: (name) => Effect.succeed(Option.fromUndefinedOr(users.get(name)))
      })
      const services = yield* Layer.build(
        PendingApprovals.layer().pipe(Layer.provideMerge(LiveLog.layer()), Layer.provide(access))
      )
      const [approvals, pending] = [
        Context.get(services, Approvals.Approvals),
        Context.get(services, PendingApprovals.PendingApprovals)
      ]
      const request = yield* approvals.request(approval({ approvers: [{ count: 2 }, { roles: ["finance"] }] }))
      const fiber = yield* Effect.forkScoped(approvals.submit(request), { startImmediately: true })
      const given = yield* givenTo(pending, request.id)
      assert.strictEqual(yield* toldOf(pending, cy, given), "waiting")
      users.set("cy", { ...cy, roles: [] })
      assert.strictEqual(yield* toldOf(pending, ada, given), "waiting")
      assert.deepStrictEqual((yield* rowOf(pending, request.id))?.approvals?.map((it) => it.person), ["cy", "ada"])
      users.delete("ada")
      const lead = { ...user("dora", ["*"]), roles: ["finance"] }
      users.set("dora", lead)
      // cy still is one of two, and dora has the role
      assert.strictEqual(yield* toldOf(pending, lead, given), "approved")
      const resolution = yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        resolution._tag === "Approved" && resolution.approvals?.map((it) => it.person),
        ["cy", "dora"]
      )
    }).pipe(Effect.scoped), { tags: ["AP19"] })

  /** A request with a random rule, as plain code sees it. */
  const law = Effect.fnUntraced(function*(
    random: SeededRandom,
    runners: ReadonlyArray<Pick<Runner, "approvals" | "pending">>,
    restart: (request: Approvals.ApprovalRequest) => Effect.Effect<void, unknown, Scope.Scope>
  ) {
    const names = ["ada", "cy", "dora", "bob", "eve"]
    const some = (of: ReadonlyArray<string>) => of.filter(() => random.chance(0.4))
    const count = random.pick([1, 1, 2, 2, 3])
    const people = random.chance(0.5) ? some(names) : undefined
    const roles = random.chance(0.4) ? some(["finance", "lead"]) : undefined
    const to = random.chance(0.5)
      ? { people: some(names), ...random.chance(0.5) ? { roles: some(["lead"]) } : {} }
      : undefined
    const rule = {
      count,
      ...people === undefined ? {} : { people },
      ...roles === undefined ? {} : { roles },
      ...to === undefined ? {} : { escalate: { after: "5 minutes", to } }
    }
    const start = yield* Clock.currentTimeMillis
    const expiresAt = start + 20 * 60_000
    const first = runners[0]!
    const request = yield* first.approvals.request(approval({ approvers: [rule], expiresAt }))
    const fiber = yield* Effect.forkScoped(first.approvals.submit(request), { startImmediately: true })
    yield* until(Effect.map(rowOf(first.pending, request.id), (it) => it !== undefined))
    const { hash } = (yield* rowOf(first.pending, request.id))!
    const approved = new Map<string, "once" | "scope">()
    let end: string | undefined
    const rolesOf = new Map(names.map((name) => [name, some(["finance", "lead"])]))
    const mayAnswer = (name: string) => name !== "eve"
    const counts = (name: string, now: number): boolean => {
      const isLate = to !== undefined && now >= start + 5 * 60_000
      if (people?.includes(name) === true || (isLate && to.people.includes(name))) return true
      if (name === "bob" && (count > 1 || roles !== undefined || to?.roles !== undefined)) return false
      if (people === undefined && roles === undefined) return true
      const has = (all: ReadonlyArray<string> | undefined) =>
        all?.some((it) => rolesOf.get(name)!.includes(it)) === true
      return has(roles) || (isLate && has(to.roles))
    }
    for (let step = 0; step < 12; step++) {
      const now = yield* Clock.currentTimeMillis
      if (end === undefined && now >= expiresAt) end = "expired"
      const kind = random.int(10)
      if (kind === 0) yield* TestClock.adjust(random.pick([1, 4, 6]) * 60_000)
      else if (kind === 1 && end === undefined && now < expiresAt) yield* restart(request)
      else if (kind === 2) rolesOf.set(random.pick(names), some(["finance", "lead"]))
      else {
        const name = random.pick(names)
        const by = { ...user(name, [mayAnswer(name) ? "*" : "eve"]), roles: rolesOf.get(name)! }
        const answer = random.pick([once, once, scope, { _tag: "Deny" } as const])
        const isDeny = answer._tag === "Deny" && random.chance(0.5)
        const given = { id: request.id, hash, answer: answer._tag === "Deny" && !isDeny ? once : answer }
        const told = yield* toldOf(random.pick(runners).pending, by, given)
        const expected = (() => {
          if (!mayAnswer(name)) return "NotFound"
          if (end !== undefined) return "AlreadyEnded"
          if (isDeny) return end = "denied"
          if (!counts(name, now)) return "NotNamed"
          if (approved.has(name)) return "AlreadyApproved"
          approved.set(name, given.answer._tag === "ApproveOnce" ? "once" : "scope")
          return approved.size >= count ? end = "approved" : "waiting"
        })()
        assert.strictEqual(told, expected, JSON.stringify({ rule, name, step }))
      }
      const row = yield* rowOf(random.pick(runners).pending, request.id)
      const isOver = end !== undefined || (yield* Clock.currentTimeMillis) >= expiresAt
      assert.strictEqual(row === undefined, isOver)
      if (row !== undefined) {
        assert.sameMembers(row.approvals?.map((it) => it.person) ?? [], Array.from(approved.keys()))
      }
    }
    if (end === "approved") {
      const ended = (yield* first.pending.list(ada)).ended.find((it) => it.id === request.id)
      const isOnce = Array.from(approved.values()).includes("once")
      assert.strictEqual(ended?.answer, isOnce ? "ApproveOnce" : "ApproveForScope")
    }
    yield* Fiber.interrupt(fiber)
  }, Effect.scoped)

  for (const seed of seeds(40)) {
    it.effect(
      `end as a plain model says, over rows in memory (seed ${seed})`,
      () =>
        Effect.gen(function*() {
          const services = yield* Layer.build(PendingApprovals.layer().pipe(Layer.provideMerge(LiveLog.layer())))
          const only = {
            approvals: Context.get(services, Approvals.Approvals),
            pending: Context.get(services, PendingApprovals.PendingApprovals)
          }
          yield* law(randomFrom(seed), [only], () => Effect.void)
        }).pipe(Effect.scoped),
      timeout
    )
  }

  for (const seed of seeds(15)) {
    it.effect(
      `end as a plain model says, over rows of several servers that restart (seed ${seed})`,
      () =>
        Effect.gen(function*() {
          const { one, sql, two } = yield* world()
          const random = randomFrom(seed)
          const activate = Effect.fnUntraced(function*(at: Runner) {
            const other = at === one ? two : one
            yield* sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${other.registry.runner.name}`
            yield* Effect.provide(at.registry.activate(home), Postgres.realTime)
          })
          yield* activate(one)
          yield* law(random, [one, two], (request) =>
            Effect.gen(function*() {
              const at = random.pick([one, two])
              yield* activate(at)
              yield* Effect.forkScoped(at.approvals.submit(request), { startImmediately: true })
              yield* until(
                Effect.map(at.approvals.list, (all) => all.some((it) => it.id === request.id))
              ).pipe(Effect.provide(Postgres.realTime))
            }))
        }).pipe(Effect.scoped),
      { tags: ["AP19"], timeout }
    )
  }
})
