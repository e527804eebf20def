/** The pending requests by themselves, with no executor: who asks, who answers, and how each request ends. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as LayerConfig from "../../../src/core/vocabulary/LayerConfig.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"

type Service = Approvals.Approvals["Service"]

const question = (tool: string, more: Partial<Approvals.NewRequest> = {}): Approvals.NewRequest => ({
  principal: "p",
  agentPath: [],
  batch: "b",
  process: "p",
  callId: "1",
  index: 0,
  tool,
  class: "SerialMut",
  args: {},
  targets: [],
  why: "why",
  preview: undefined,
  isRunning: false,
  remember: "tool",
  ...more
})

const virtual = <A, E>(effect: Effect.Effect<A, E, Scope.Scope>) =>
  VirtualTime.run(Effect.scoped(effect), { limit: "365 days" })

/** Asks in a fiber of its own. */
const asked = (approvals: Service, it: Approvals.NewRequest) =>
  Effect.gen(function*() {
    const request = yield* approvals.request(it)
    const fiber = yield* Effect.forkChild(approvals.submit(request), { startImmediately: true })
    return { request, fiber }
  })

/** What is told from now on; `seen` gives it in short. */
const watched = (approvals: Service) =>
  Effect.gen(function*() {
    const seen: Array<string> = []
    yield* Effect.forkScoped(
      Stream.runForEach(approvals.changes, (change) =>
        Effect.sync(() => {
          if (change._tag === "Requested") seen.push(`asked ${change.request.tool}`)
          else if (change._tag !== "Ended") seen.push(change._tag)
          else seen.push(change.how._tag === "Denied" ? change.how.by : change.how._tag)
        })),
      { startImmediately: true }
    )
    return seen
  })

const yes = { _tag: "ApproveOnce" } as const

describe("a request", () => {
  it.effect("says when it ends and how: answered, expired, given up, withdrawn or closed", () =>
    virtual(Effect.gen(function*() {
      const scope = yield* Scope.make()
      const approvals = yield* Scope.provide(Approvals.make({ timeout: "1 minute" }), scope)
      const seen = yield* watched(approvals)
      const ends = {
        Approved: (id: string) => Effect.orDie(approvals.answer(id, yes)),
        user: (id: string) => Effect.orDie(approvals.answer(id, { _tag: "Deny" })),
        timeout: () => Effect.sleep("1 minute"),
        noApprover: approvals.giveUp,
        closed: () => Scope.close(scope, Exit.void)
      }
      for (const [how, end] of Object.entries(ends)) {
        const { fiber, request } = yield* asked(approvals, question(how))
        yield* Effect.sleep(1)
        yield* end(request.id)
        const resolution = yield* Fiber.join(fiber)
        assert.strictEqual(resolution._tag === "Denied" ? resolution.by : resolution._tag, how)
        assert.deepStrictEqual(seen.splice(0), [`asked ${how}`, how])
        assert.deepStrictEqual(yield* approvals.list, [])
      }
    })))

  it.effect("is withdrawn by the interruption of who asks, at once", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const seen = yield* watched(approvals)
      const { fiber, request } = yield* asked(approvals, question("t"))
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(yield* approvals.list, [])
      assert.strictEqual((yield* Effect.flip(approvals.answer(request.id, yes))).reason, "NotPending")
      yield* Effect.sleep("1 hour")
      assert.deepStrictEqual(seen, ["asked t", "Withdrawn"])
    })))

  it.effect("is answered before anything runs that waits for it, however many it covers", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const log: Array<string> = []
      const asking = yield* Effect.forEach(
        Array.from({ length: 101 }),
        () =>
          Effect.flatMap(approvals.request(question("t")), (request) =>
            Effect.forkChild(
              Effect.andThen(approvals.submit(request), Effect.sync(() => log.push("goes on"))),
              { startImmediately: true }
            ))
      )
      const [first] = yield* approvals.list
      yield* approvals.answer(first!.id, { _tag: "ApproveForScope" })
      log.push("answered")
      assert.deepStrictEqual(yield* approvals.list, [])
      yield* Fiber.joinAll(asking)
      assert.strictEqual(log[0], "answered")
      assert.lengthOf(log, 102)
    })))

  it.effect("has the id that its question or the host gives it, once at a time", () =>
    virtual(Effect.gen(function*() {
      let serial = 0
      const approvals = yield* Approvals.make({ makeId: Effect.sync(() => `ours-${++serial}`) })
      const { fiber } = yield* asked(approvals, question("t"))
      yield* asked(approvals, question("t", { id: "stored" }))
      assert.deepStrictEqual((yield* approvals.list).map((it) => it.id), ["ours-1", "stored"])
      const again = yield* asked(approvals, question("t", { id: "ours-1" }))
      assert.isTrue(Exit.hasDies(yield* Fiber.await(again.fiber)))
      // the first is not disturbed, and its id is free afterwards
      yield* approvals.answer("ours-1", yes)
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Approved")
      const later = yield* asked(approvals, question("t", { id: "ours-1" }))
      yield* approvals.answer("ours-1", { _tag: "Deny" })
      assert.strictEqual((yield* Fiber.join(later.fiber))._tag, "Denied")
    })))
})

describe("the time of a request", () => {
  it.effect("is its question's, or else the host's, and may be unlimited", () =>
    virtual(Effect.gen(function*() {
      const expiries = (options: Approvals.Options) =>
        Effect.gen(function*() {
          const approvals = yield* Approvals.make(options)
          const of = (more: Partial<Approvals.NewRequest>) =>
            Effect.map(approvals.request(question("t", more)), (it) => it.expiresAt)
          return [yield* of({}), yield* of({ expiresAt: 7 }), yield* of({ expiresAt: "unlimited" })]
        })
      assert.deepStrictEqual(yield* expiries({}), [300_000, 7, "unlimited"])
      assert.deepStrictEqual(yield* expiries({ timeout: "1 hour" }), [3_600_000, 7, "unlimited"])
      assert.deepStrictEqual(yield* expiries({ timeout: "unlimited" }), ["unlimited", 7, "unlimited"])
      assert.deepStrictEqual(yield* expiries({ timeout: Infinity }), ["unlimited", 7, "unlimited"])
    })))

  it.effect("ends each by its own deadline, and none that is unlimited", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make({ timeout: "unlimited" })
      const ended: Array<readonly [tool: string, at: number]> = []
      for (const [tool, expiresAt] of [["c", 3_000], ["never", "unlimited"], ["a", 1_000], ["past", -1]] as const) {
        const request = yield* approvals.request(question(tool, { expiresAt }))
        yield* Effect.forkChild(Effect.gen(function*() {
          const resolution = yield* approvals.submit(request)
          assert.deepStrictEqual(resolution, { _tag: "Denied", by: "timeout" })
          ended.push([tool, yield* VirtualTime.now])
        }))
      }
      yield* Effect.sleep("30 days")
      assert.deepStrictEqual(ended, [["past", 0], ["a", 1_000], ["c", 3_000]])
      const [left] = yield* approvals.list
      assert.strictEqual(left?.tool, "never")
      yield* approvals.answer(left!.id, yes)
    })))

  it.effect("may come from the configuration", () =>
    virtual(Effect.gen(function*() {
      const of = (env: Record<string, string>) =>
        Effect.gen(function*() {
          const layer = LayerConfig.from(Approvals.layer, { timeout: Config.Duration("PATIENCE") }).pipe(
            Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
          )
          const approvals = Context.get(yield* Layer.build(layer), Approvals.Approvals)
          return (yield* approvals.request(question("t"))).expiresAt
        })
      assert.strictEqual(yield* of({ PATIENCE: "2 minutes" }), 120_000)
      assert.strictEqual((yield* Effect.flip(of({ PATIENCE: "-1 minutes" })))._tag, "ConfigurationError")
      assert.strictEqual((yield* Effect.flip(of({ PATIENCE: "soon" })))._tag, "ConfigError")
    })))

  it.effect("is refused where it is no time that can be waited for", () =>
    virtual(Effect.gen(function*() {
      for (const timeout of ["soon", NaN, -5, "-5 seconds", [], true]) {
        const error = yield* Effect.flip(Approvals.make({ timeout: timeout as never }))
        assert.strictEqual(error._tag, "ConfigurationError")
        assert.include(error.message, "timeout: it is ")
        assert.include(error.message, "expected a duration, such as \"30 seconds\", or \"unlimited\"")
      }
    })))
})

describe("a function that asks", () => {
  /** Notes what it is asked, and what interrupts it. */
  const people = (answer: (request: Approvals.ApprovalRequest) => Effect.Effect<Approvals.Answer>) => {
    const log: Array<string> = []
    const put = (request: Approvals.ApprovalRequest) =>
      Effect.onInterrupt(
        Effect.suspend(() => {
          log.push(`asked ${request.tool}`)
          return answer(request)
        }),
        () => Effect.sync(() => log.push(`stopped ${request.tool}`))
      )
    return { log, put }
  }

  it.effect("gives the answer, with what it requires", () =>
    virtual(Effect.gen(function*() {
      class Desk extends Context.Service<Desk, { readonly reason: string }>()("test/Desk") {}
      const layer = Approvals.layerApprover(() =>
        Effect.map(Desk, ({ reason }): Approvals.Answer => ({ _tag: "Deny", reason }))
      )
      const context = yield* Layer.build(Layer.provide(layer, Layer.succeed(Desk, { reason: "closed on Sundays" })))
      const approvals = Context.get(context, Approvals.Approvals)
      const { fiber } = yield* asked(approvals, question("t"))
      assert.deepStrictEqual(yield* Fiber.join(fiber), { _tag: "Denied", by: "user", reason: "closed on Sundays" })
    })))

  it.effect("is stopped when its request ends another way", () =>
    virtual(Effect.gen(function*() {
      const { log, put } = people(() => Effect.never)
      const scope = yield* Scope.make()
      const approvals = yield* Scope.provide(Approvals.makeApprover(put, { timeout: "1 minute" }), scope)
      const ends: Readonly<Record<string, (id: string, fiber: Fiber.Fiber<unknown>) => Effect.Effect<unknown>>> = {
        answered: (id) => Effect.orDie(approvals.answer(id, yes)),
        withdrawn: (_, fiber) => Fiber.interrupt(fiber),
        expired: () => Effect.sleep("1 minute"),
        closed: () => Scope.close(scope, Exit.void)
      }
      for (const [how, end] of Object.entries(ends)) {
        const { fiber, request } = yield* asked(approvals, question(how))
        yield* Effect.sleep(1)
        yield* end(request.id, fiber)
        yield* Effect.sleep(1)
        assert.deepStrictEqual(log.splice(0), [`asked ${how}`, `stopped ${how}`])
      }
    })))

  it.effect("that dies, ends or gives no answer leaves nobody to ask", () =>
    virtual(Effect.gen(function*() {
      const wrong: ReadonlyArray<() => Effect.Effect<Approvals.Answer>> = [
        () => Effect.die("no"),
        () => Effect.interrupt,
        () => Effect.succeed({ _tag: "Maybe" } as never),
        () => {
          throw new Error("no")
        }
      ]
      for (const answer of wrong) {
        const approvals = yield* Approvals.makeApprover(answer)
        const { fiber } = yield* asked(approvals, question("t"))
        assert.deepStrictEqual(yield* Fiber.join(fiber), { _tag: "Denied", by: "noApprover", reason: "why" })
        assert.strictEqual(yield* VirtualTime.now, 0)
      }
    })))

  it.effect("may remember its answer for others that wait, and is not asked about them any more", () =>
    virtual(Effect.gen(function*() {
      const answered = yield* Deferred.make<Approvals.Answer>()
      const { log, put } = people(({ callId }) => callId === "1" ? Deferred.await(answered) : Effect.never)
      const approvals = yield* Approvals.makeApprover(put)
      const first = yield* asked(approvals, question("t"))
      const second = yield* asked(approvals, question("t", { callId: "2" }))
      yield* Effect.sleep(1)
      yield* Deferred.succeed(answered, { _tag: "ApproveForScope" })
      assert.deepInclude(yield* Fiber.join(first.fiber), { _tag: "Approved", isOwn: true })
      assert.deepInclude(yield* Fiber.join(second.fiber), { _tag: "Approved", isOwn: false })
      yield* Effect.sleep(1)
      assert.deepStrictEqual(log, ["asked t", "asked t", "stopped t"])
    })))
})
