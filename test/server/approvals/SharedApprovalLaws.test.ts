/**
 * Whatever happens to sessions and to the processes that hold them, approval requests end as the same plain model says
 * that holds in one process: answers anywhere, expiries, withdrawals, suspensions, takeovers and owners that are stale.
 */
import { assert, layer } from "@effect/vitest"
import type { Approvals } from "effect-tool-executor"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { randomFrom, type SeededRandom } from "../../../src/testing/SeededRandom.ts"
import { user } from "../../support/Asking.ts"
import * as Postgres from "../../support/Postgres.ts"
import { ApprovalOracle, approvers, type Asked, type Given, type Told } from "../../support/questionOracle.ts"
import { seeds, timeout } from "../../support/seeds.ts"
import { type Runner, world } from "../../support/SharedApprovals.ts"

const answers: { readonly [K in Given["answer"]]: Approvals.Answer } = {
  once: { _tag: "ApproveOnce" },
  deny: { _tag: "Deny" },
  scope: { _tag: "ApproveForScope" },
  endless: { _tag: "ApproveForDuration", duration: "for ever" }
}

const people = ["ada", "dora", "cy", "cy", "cy", "eve"] as const

type Person = (typeof people)[number]

/** A call that was asked about, in the process where it waited last. */
interface Known {
  readonly request: Approvals.ApprovalRequest
  readonly user: string
  fiber: Fiber.Fiber<Approvals.Resolution>
  at: Runner
  isGone: boolean
}

/** Who holds the session of a user; `undefined`: nobody. */
type Owners = Map<string, Runner | undefined>

const principalOf = (user: string) => `${user}/home`

const resolutionOf = (how: string): string =>
  ({ approved: "Approved", covered: "Approved", denied: "user", expired: "timeout" })[how] ?? how

const saidOf = (it: Approvals.Resolution): string => it._tag === "Denied" ? it.by : it._tag

const outcomeOf = (known: Known): Approvals.Resolution | undefined => {
  const exit = known.fiber.pollUnsafe()
  return exit?._tag === "Success" && exit.value._tag !== "Suspended" ? exit.value : undefined
}

const toldOf = (said: Effect.Effect<ReadonlyArray<{ readonly how: string }>, { readonly _tag: string }>) =>
  Effect.match(said, {
    onSuccess: (all): Told => ({ _tag: "Taken", how: all.map(({ how }) => how) }),
    onFailure: (problem): Told => {
      const error = problem as never as {
        readonly _tag: string
        readonly how: string
        readonly by?: string
        at: number
      }
      if (error._tag === "NotFound") return { _tag: "NotFound" }
      if (error._tag === "AlreadyEnded") {
        const { at, by, how } = error
        return { _tag: "AlreadyEnded", how, at, ...by === undefined ? {} : { by } }
      }
      const { errors } = problem as never as { readonly errors: ReadonlyArray<{ readonly reason: string }> }
      return { _tag: "NotAnswered", reasons: errors.map(({ reason }) => reason) }
    }
  })

layer(Postgres.layer)("approval requests of sessions that move", (it) => {
  const run = Effect.fnUntraced(function*(random: SeededRandom) {
    const { one, sql, two } = yield* world()
    const runners = [one, two] as const
    const model = new ApprovalOracle()
    const known: Array<Known> = []
    const owners: Owners = new Map()

    /** What everybody sees, in every process, becomes what the model says. */
    const compare = Effect.fnUntraced(function*(everybody: ReadonlyArray<Person> = ["cy"]) {
      for (const by of everybody) {
        const open = model.open.filter(({ id }) => model.mayAnswer(by, id)).map(({ id }) => known[id]!.request.id)
        const ended = Array.from(model.ended).filter(([id]) => model.mayAnswer(by, id))
          .map(([id, { at, by, how }]) => [known[id]!.request.id, how, by, at] as const)
        for (const { pending } of runners) {
          const seen = Effect.map(pending.list(user(by, approvers[by])), (list) => ({
            open: list.open.map(({ id }) => id).sort(),
            ended: list.ended.map(({ by, endedAt, how, id }) => [id, how, by, endedAt] as const).sort(),
            pending: list.pending
          }))
          const expected = { open: open.sort(), ended: ended.sort(), pending: open.length }
          let got = yield* seen
          for (let tries = 0; tries < 400 && JSON.stringify(got) !== JSON.stringify(expected); tries++) {
            yield* Effect.provide(Effect.sleep("5 millis"), Postgres.realTime)
            got = yield* seen
          }
          assert.deepStrictEqual(got, expected)
        }
      }
    })
    const submit = Effect.fnUntraced(function*(at: Runner, request: Approvals.ApprovalRequest) {
      return yield* Effect.forkScoped(at.approvals.submit(request), { startImmediately: true })
    })
    /** Calls of owners that do not know yet that they lost their sessions. */
    const stale: Array<{ readonly user: string; readonly at: Runner; readonly fiber: Known["fiber"] }> = []
    /** Another process takes the session; all its calls that have no outcome ask again. */
    const activate = Effect.fnUntraced(function*(user: string, at: Runner) {
      for (const it of stale.splice(0)) {
        if (it.user !== user || it.at !== at) stale.push(it)
        else if (random.chance(0.5)) yield* Fiber.interrupt(it.fiber)
      }
      for (const other of runners) {
        if (other === at) continue
        yield* sql`UPDATE tool_executor_runners SET lease_until = 0 WHERE name = ${other.registry.runner.name}`
      }
      yield* Effect.provide(at.registry.activate(principalOf(user)), Postgres.realTime)
      owners.set(user, at)
      for (const it of known) {
        if (it.user !== user || it.isGone || outcomeOf(it) !== undefined) continue
        if (isWaiting(it)) stale.push({ user, at: it.at, fiber: it.fiber })
        it.fiber = yield* submit(at, it.request)
        it.at = at
      }
    })
    const isWaiting = (it: Known) => it.fiber.pollUnsafe() === undefined
    const ask = Effect.fnUntraced(function*(asked: Asked) {
      const at = owners.get(asked.user) ?? random.pick(runners)
      if (owners.get(asked.user) === undefined) yield* activate(asked.user, at)
      const now = yield* Clock.currentTimeMillis
      const id = known.length
      const { fiber, request } = yield* at.ask({
        callId: `c${id}`,
        principal: principalOf(asked.user),
        tool: asked.tool,
        targets: [{ text: asked.target }],
        args: { target: asked.target },
        remember: asked.remember,
        expiresAt: asked.minutes === 0 ? "unlimited" : now + asked.minutes * 60_000
      })
      known.push({ request, user: asked.user, fiber, at, isGone: false })
      model.ask(asked, now)
    })
    const hashOf = Effect.fnUntraced(function*(id: string) {
      const { open } = yield* one.pending.list(user("cy", ["*"]))
      return open.find((it) => it.id === id)?.hash ?? ""
    })
    const answer = Effect.fnUntraced(function*(by: Person, given: ReadonlyArray<Given>, isOne: boolean) {
      const { pending } = random.pick(runners)
      const now = yield* Clock.currentTimeMillis
      const person = user(by, approvers[by])
      const real = yield* Effect.forEach(given, ({ answer, at, isOther }) =>
        Effect.gen(function*() {
          const id = known[at]?.request.id ?? `unknown ${at}`
          return { id, hash: isOther ? "0".repeat(64) : yield* hashOf(id), answer: answers[answer] }
        }))
      const said = isOne ? Effect.map(pending.answer(person, real[0]!), (it) => [it]) : pending.answerAll(person, real)
      const told = yield* toldOf(said)
      assert.deepStrictEqual(told, isOne ? model.answer(by, given[0]!, now) : model.answerAll(by, given, now))
    })
    const given = (): Given => ({
      at: random.int(known.length + 1),
      answer: random.pick(["once", "deny", "deny", "scope", "scope", "endless"] as const),
      isOther: random.chance(0.1)
    })
    const suspend = Effect.fnUntraced(function*(user: string) {
      const at = owners.get(user)
      const epoch = at?.registry.current(principalOf(user))
      if (at === undefined || epoch === undefined) return
      const open = model.open.filter((it) => it.user === user).length
      const left = yield* at.pending.suspendOf(principalOf(user), "nothing else runs")
      assert.isAtLeast(left.pending, open)
      // one that has expired is seen by whoever holds the session next, at once
      const isDue = left.until !== undefined && left.until <= (yield* Clock.currentTimeMillis)
      if (left.pending > open) assert.isTrue(!left.isStored || isDue)
      yield* Effect.provide(at.registry.release(epoch, { _tag: "Waiting", until: left.until }), Postgres.realTime)
      owners.set(user, undefined)
    })
    /** The outcome of a call is that of its request, wherever it waits. */
    const check = (it: Known, id: number) => {
      const got = outcomeOf(it)
      if (got === undefined) return
      const end = model.ended.get(id)
      assert.isDefined(end, "it waits")
      assert.strictEqual(saidOf(got), resolutionOf(end!.how))
      assert.strictEqual(got._tag === "Suspended" ? undefined : got.person, end!.by)
    }

    for (let step = 0; step < 30; step++) {
      const now = yield* Clock.currentTimeMillis
      const name = random.pick(["bob", "bob", "dan"])
      switch (random.int(9)) {
        case 0:
        case 1: {
          if (known.length === 12) break
          yield* ask({
            _tag: "Ask",
            user: name as never,
            tool: random.pick(["write", "write", "write", "remove"]),
            target: random.pick(["a", "a", "a", "b"]),
            remember: random.pick(["tool", "call"]),
            minutes: random.pick([0, 0, 1, 3])
          })
          break
        }
        case 2:
        case 3: {
          yield* answer(random.pick(people), [given()], true)
          break
        }
        case 4: {
          yield* answer(random.pick(people), [given(), given()].slice(0, 1 + random.int(2)), false)
          break
        }
        case 5: {
          const id = random.int(known.length + 1)
          const it = known[id]
          if (it === undefined || !isWaiting(it)) break
          // only who holds the session withdraws: another process may not know that it lost it
          const isOwner = owners.get(it.user) === it.at
          if (isOwner) {
            model.withdraw(id, now)
            it.isGone = true
          }
          yield* Fiber.interrupt(it.fiber)
          break
        }
        case 6: {
          const minutes = random.pick([1, 2])
          // nothing is on its way when time passes
          yield* compare()
          yield* TestClock.adjust(minutes * 60_000)
          model.pass(now + minutes * 60_000)
          break
        }
        case 7: {
          yield* suspend(name)
          break
        }
        case 8: {
          yield* activate(name, random.pick(runners))
          break
        }
      }
      if (random.chance(0.4)) yield* random.pick(runners).pending.refresh(principalOf(name))
      yield* compare()
      known.forEach(check)
    }
    yield* compare(["ada", "dora", "eve"])
    // in the end every call has its outcome, or waits for a request that is pending
    for (const user of ["bob", "dan"]) {
      const at = owners.get(user) ?? random.pick(runners)
      yield* activate(user, at)
      yield* compare()
      yield* at.pending.refresh(principalOf(user))
    }
    for (const [id, it] of known.entries()) {
      if (it.isGone) continue
      if (model.ended.has(id)) yield* Fiber.await(it.fiber)
      else assert.isTrue(isWaiting(it))
      check(it, id)
      assert.strictEqual(outcomeOf(it) !== undefined, model.ended.has(id))
    }
  }, Effect.scoped)

  for (const seed of seeds(20)) {
    it.effect(`end as a plain model says, wherever people answer (seed ${seed})`, () => run(randomFrom(seed)), {
      tags: ["AP13"],
      timeout
    })
  }
})
