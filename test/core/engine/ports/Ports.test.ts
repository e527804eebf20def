/** What an executor leans on may throw, die, fail or never answer: no program fails or hangs with it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import type { WaveResult } from "../../../../src/core/vocabulary/ToolOutcome.ts"
import { type ArtifactStore, type Checkpoints, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, open, type Options, run, tags, value } from "../../../support/Harness.ts"

type Store = StateStore.StateStore["Service"]

/** Ways in which a driver does not work. */
const ways: Readonly<Record<string, () => Effect.Effect<never, never>>> = {
  throws: () => {
    throw new Error("the driver threw")
  },
  dies: () => Effect.die("the driver died"),
  fails: () => Effect.fail("the driver failed") as unknown as Effect.Effect<never>,
  "interrupts itself": () => Effect.interrupt,
  "never answers": () => Effect.never,
  "is deaf": () => Effect.uninterruptible(Effect.never)
}

const operations = [
  "reserve",
  "check",
  "settle",
  "release",
  "grant",
  "grants",
  "revoke",
  "mutated",
  "closeBatch",
  "pruneExpired"
] as const

const rules = [
  { _tag: "MaxCalls", tool: "w", max: 2 },
  { _tag: "RequiresConsent", tool: "ask" }
] as const

const deaf = () => Effect.uninterruptible(Effect.sleep(50))

/** How an effect fails, if it does. */
const failures = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(effect), (exit) => Exit.isSuccess(exit) ? [] : exit.cause.reasons.map((it) => it._tag))

/** Everything that asks a store, and how long it took. */
const everything = (options: Options) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make({ timeout: "1 second" })
      const scope = yield* Scope.make()
      const tools = {
        r: () => Effect.succeed("x".repeat(50_000)),
        w: { class: "ConcurrentMut", handler: () => Effect.void } as const,
        ask: { class: "ConcurrentMut", handler: () => Effect.void } as const,
        late: { class: "ConcurrentMut", handler: deaf } as const
      }
      const env = yield* Effect.provideService(
        open(tools, { ...options, rules, approvals, tools: { late: { timeout: 10 } } }),
        Scope.Scope,
        scope
      )
      const asked = yield* Effect.forkChild(env.process.executeWave(calls("ask")))
      yield* Effect.sleep(500)
      for (const { id } of yield* approvals.list) yield* approvals.answer(id, { _tag: "ApproveForScope" })
      const outcomes = [
        ...tags(yield* Fiber.join(asked)),
        ...tags(yield* env.process.executeWave(calls("r", "w", "late", "ask"))),
        ...tags(yield* env.process.executeWave(calls(["r", { b: 1 }], ["w", { b: 1 }])))
      ]
      yield* env.process.allowedNext
      const typed = [
        ...yield* failures(env.executor.grants),
        ...yield* failures(env.executor.revoke({ tool: "ask" })),
        ...yield* failures(env.executor.pruneExpired)
      ]
      const closed = yield* Effect.exit(Scope.close(scope, Exit.void))
      return { outcomes, typed, closed, took: yield* VirtualTime.now }
    })),
    { limit: "1 day" }
  )

describe("a state store", () => {
  for (const operation of operations) {
    for (const [way, answer] of Object.entries(ways)) {
      it.effect(`whose ${operation} ${way} fails and hangs nothing`, () => {
        const store = { ...StateStore.makeMemory(), [operation]: answer }
        return Effect.map(everything({ store }), ({ closed, outcomes, took, typed }) => {
          assert.lengthOf(outcomes, 7)
          assert.isTrue(Exit.isSuccess(closed))
          assert.isTrue(typed.every((it) => it === "Fail"))
          assert.isAtMost(took, 60_000)
          assert.notInclude(outcomes, "GuardRejected")
          if (operation === "reserve") assert.include(outcomes, "StoreUnavailable")
        })
      })
    }
  }

  it.effect("is waited for no longer than the turn lasts", () =>
    run(
      { t: () => Effect.void },
      { turn: { timeout: "2 seconds" }, store: { ...StateStore.makeMemory(), reserve: () => Effect.never } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("t"))
          assert.deepInclude(wave.outcomes[0], { reason: { _tag: "StoreUnavailable", operation: "reserve" } })
          assert.include(wave.toolMessages[0]!.text, "try it again later")
          assert.strictEqual(yield* VirtualTime.now, 2_000)
        })
    ))

  it.effect("that cannot tell whether a permission still stands refuses, and blames nobody", () => {
    const memory = StateStore.makeMemory()
    let isBroken = false
    const grants: Store["grants"] = (...asked) => isBroken ? Effect.die("gone") : memory.grants(...asked)
    return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { batch, process } = yield* open(
        { w: { class: "SerialMut", handler: () => Effect.sleep(1_000) } },
        { store: { ...memory, grants }, approvals, rules: [{ _tag: "RequiresConsent", tool: "w" }] }
      )
      const later = (wave: Effect.Effect<WaveResult>) => Effect.forkChild(wave, { startImmediately: true })
      yield* later(process.executeWave(calls("w")))
      for (const { id } of yield* approvals.list) {
        yield* approvals.answer(id, { _tag: "ApproveForScope", scope: "tool" })
      }
      // the call takes its answer up in its own turn
      yield* Effect.sleep(1)
      const next = yield* later((yield* batch.process()).executeWave([call("2", "w", { b: 1 })]))
      assert.deepStrictEqual(yield* approvals.list, [])
      isBroken = true
      assert.deepInclude((yield* Fiber.join(next)).outcomes[0], {
        reason: { _tag: "StoreUnavailable", operation: "grants" }
      })
    })))
  })
})

describe("people, by a driver", () => {
  type Driver = Partial<Pick<Approvals.Approvals["Service"], "submit" | "request">>
  const denied: Approvals.Resolution = { _tag: "Denied", by: "user" }
  const approved: Approvals.Resolution = { _tag: "Approved", grant: undefined, isOwn: true }
  const request = (question: Approvals.NewRequest) =>
    Effect.map(Effect.clockWith((clock) => clock.currentTimeMillis), (requestedAt) => ({
      ...question,
      id: "q",
      requestedAt,
      expiresAt: requestedAt + 300_000
    }))
  const broken = {
    get _tag() {
      throw new Error("the answer threw")
    }
  }
  const drivers: Readonly<Record<string, Driver>> = {
    ...Object.fromEntries(
      Object.entries(ways).flatMap(([way, answer]) => [
        [`whose request ${way}`, { request: answer, submit: () => Effect.succeed(approved) }],
        [`whose submit ${way}`, { request, submit: answer }]
      ])
    ),
    "that gives a request with no id": {
      request: (question) => Effect.map(request(question), (it) => ({ ...it, id: undefined as never })),
      submit: () => Effect.succeed(approved)
    },
    "that gives a request with no deadline": {
      request: (question) => Effect.map(request(question), (it) => ({ ...it, expiresAt: NaN })),
      submit: () => Effect.succeed(approved)
    },
    "that says no, then yes": {
      request,
      submit: () =>
        Effect.callback((resume) => {
          resume(Effect.succeed(denied))
          resume(Effect.succeed(approved))
        })
    },
    "whose answer is null": { request, submit: () => Effect.succeed(null as never) },
    "whose answer is an empty object": { request, submit: () => Effect.succeed({} as never) },
    "whose answer throws": { request, submit: () => Effect.succeed(broken as never) },
    "whose permission is no grant": { request, submit: () => Effect.succeed({ ...approved, grant: 7 } as never) },
    "that takes no question back": { request, submit: () => Effect.uninterruptible(Effect.never) },
    "that answers when the question is taken back": {
      request,
      submit: () => Effect.onInterrupt(Effect.never, () => Effect.succeed(approved))
    },
    "that dies when the question is taken back": {
      request,
      submit: () => Effect.onInterrupt(Effect.never, () => Effect.die("it cannot be taken back"))
    }
  }
  const waves = (driver: Driver, approval: "perCall" | "upfront", then: (env: Env) => Effect.Effect<unknown>) =>
    run(
      { w: { class: "SerialMut", handler: () => Effect.void }, r: () => Effect.void },
      { approval, approvals: driver as never, policy: { default: "allow", ask: ["w"] } },
      (env) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkChild(env.process.executeWave(calls("r", "w", "r")), {
            startImmediately: true
          })
          yield* then(env)
          return { outcomes: tags(yield* Fiber.join(wave)), took: yield* VirtualTime.now }
        })
    )

  for (const approval of ["perCall", "upfront"] as const) {
    for (const [which, driver] of Object.entries(drivers)) {
      it.effect(`${which} is a no, in time (${approval})`, () =>
        Effect.gen(function*() {
          const { outcomes, took } = yield* waves(driver, approval, () => Effect.void)
          assert.deepStrictEqual(outcomes, ["Succeeded", "PermissionDenied", "Succeeded"])
          assert.isAtMost(took, 305_000)
        }))
    }

    it.effect(`that do not answer hold nobody who cancels (${approval})`, () =>
      Effect.gen(function*() {
        for (
          const which of [
            "whose request never answers",
            "whose request is deaf",
            "that takes no question back",
            "that answers when the question is taken back",
            "that dies when the question is taken back"
          ]
        ) {
          const { outcomes, took } = yield* waves(drivers[which]!, approval, ({ process }) =>
            Effect.andThen(Effect.sleep(10), process.cancelCall("2")))
          assert.deepStrictEqual(outcomes, ["Succeeded", "Cancelled", "Succeeded"])
          assert.strictEqual(took, 10)
        }
      }))

    it.effect(`that suspend the question cancel its call, and say why (${approval})`, () =>
      run(
        { w: { class: "SerialMut", handler: () => Effect.void }, r: () => Effect.void },
        {
          approval,
          approvals: {
            request,
            submit: () => Effect.succeed({ _tag: "Suspended", reason: "nobody is in the office before Monday" })
          } as never,
          policy: { default: "allow", ask: ["w"] }
        },
        ({ process }) =>
          Effect.gen(function*() {
            const events = yield* Stream.runCollect(process.stream(calls("r", "w")))
            const outcomes = events
              .flatMap((it) => it._tag === "ToolCallComplete" ? [it.outcome] : [])
              .sort((one, other) => one.index - other.index)
            assert.deepStrictEqual(tags({ outcomes } as never), ["Succeeded", "Cancelled"])
            assert.deepInclude(outcomes[1], { started: false, reason: "nobody is in the office before Monday" })
            assert.deepInclude(events.at(-1), { _tag: "WaveSuspended", calls: ["2"], executionResults: outcomes })
            assert.deepInclude(events.find((it) => it._tag === "ToolApprovalResolved"), { answer: "suspended" })
          })
      ))

    it.effect(`that suspend the question about a write stop the call that waits with it (${approval})`, () =>
      Effect.gen(function*() {
        const written: Array<string> = []
        const change = Effect.succeed([{ path: "a", before: "1", after: "2" }])
        const handler = () =>
          Effect.gen(function*() {
            const context = yield* ToolContext.ToolContext
            yield* context.confirmWrite(change)
            yield* context.commit(Effect.sync(() => written.push("a")))
          })
        yield* run(
          { w: { class: "SerialMut", handler } },
          {
            approval,
            approvals: { request, submit: () => Effect.succeed({ _tag: "Suspended", reason: "not now" }) } as never,
            policy: { default: "allow", ask: ["w(*)"] }
          },
          ({ process }) =>
            Effect.gen(function*() {
              const [outcome] = (yield* process.executeWave(calls("w"))).outcomes
              assert.deepInclude(outcome, { _tag: "Cancelled", started: true, reason: "not now" })
              assert.deepStrictEqual(written, [])
            })
        )
      }))

    for (
      const [expiresAt, ends] of [[10_000, 15_000], [7_200_000, 7_205_000], ["unlimited", 36_000_000]] as const
    ) {
      it.effect(`that are silent are waited for ${expiresAt} ms and some seconds (${approval})`, () =>
        Effect.gen(function*() {
          const silent: Driver = {
            request: (question) => Effect.map(request(question), (it) => ({ ...it, expiresAt })),
            submit: () => Effect.never
          }
          const { outcomes, took } = yield* waves(
            silent,
            approval,
            ({ process }) => Effect.andThen(Effect.sleep("10 hours"), process.cancelCall("2"))
          )
          const isLimited = expiresAt !== "unlimited"
          assert.deepStrictEqual(outcomes, ["Succeeded", isLimited ? "PermissionDenied" : "Cancelled", "Succeeded"])
          assert.strictEqual(took, 36_000_000)
          const unheld = yield* waves(
            silent,
            approval,
            ({ process }) => isLimited ? Effect.void : Effect.delay(process.cancelCall("2"), "10 hours")
          )
          assert.strictEqual(unheld.took, ends)
        }))
    }

    it.effect(`that answer as they please run nothing of the call themselves (${approval})`, () =>
      Effect.gen(function*() {
        const log: Array<string> = []
        const answers: Array<() => void> = []
        const submit = () =>
          Effect.callback<Approvals.Resolution>((resume) => {
            answers.push(() => resume(Effect.succeed(approved)))
          })
        yield* run(
          { w: { class: "ConcurrentMut", handler: () => Effect.sync(() => log.push("starts")) } },
          { approval, approvals: { request, submit } as never, policy: { default: "ask" } },
          ({ process }) =>
            Effect.gen(function*() {
              const wave = yield* Effect.forkChild(process.executeWave(calls("w", ["w", { n: 7 }])), {
                startImmediately: true
              })
              yield* Effect.sleep(1)
              assert.lengthOf(answers, 2)
              for (const answer of answers) answer()
              log.push("answered")
              assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
              assert.deepStrictEqual(log, ["answered", "starts", "starts"])
            })
        )
      }))
  }
})

describe("what a store could not note", () => {
  /** A store that can be cut off; and what it was told. */
  const cutOff = () => {
    const memory = StateStore.makeMemory()
    const state = { isBroken: false, told: [] as Array<string> }
    const noted = <Args extends ReadonlyArray<never>>(
      name: string,
      tell: (...args: Args) => Effect.Effect<boolean, StateStore.StateStoreError>
    ) =>
    (...args: Args): Effect.Effect<boolean, StateStore.StateStoreError> => {
      state.told.push(name)
      return state.isBroken ? Effect.die("cut off") : tell(...args)
    }
    const { release, settle } = memory
    const store: Store = {
      ...memory,
      settle: noted("settle", settle as never) as never,
      release: noted("release", release as never) as never
    }
    return { store, state }
  }

  it.effect("is told again until it knows: nothing runs for ever", () => {
    const { state, store } = cutOff()
    return run(
      { t: () => Effect.succeed(1), f: () => Effect.fail("no") },
      { store },
      ({ process }) =>
        Effect.gen(function*() {
          const again = () => Effect.map(process.executeWave(calls(["t", {}], ["f", {}])), ({ outcomes }) => outcomes)
          state.isBroken = true
          assert.deepStrictEqual((yield* again()).map((it) => it._tag), ["Succeeded", "Failed"])
          const [kept, free] = yield* again()
          assert.deepInclude(kept, { reason: { _tag: "DuplicateCall", of: "1", running: false, changedSince: false } })
          assert.deepInclude(free, { reason: { _tag: "StoreUnavailable", operation: "settle" } })
          yield* Effect.sleep("10 minutes")
          state.isBroken = false
          yield* Effect.sleep("1 minute")
          assert.deepInclude((yield* again())[1], { _tag: "Failed", origin: "handler" })
        })
    )
  })

  it.effect("is told with ever longer pauses, in its order, and no more once the executor is over", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const { state, store } = cutOff()
        const scope = yield* Scope.make()
        const env = yield* Effect.provideService(
          open({ t: { class: "ConcurrentMut", handler: deaf } }, { store, tools: { t: { timeout: 10 } } }),
          Scope.Scope,
          scope
        )
        state.isBroken = true
        assert.deepStrictEqual(tags(yield* env.process.executeWave(calls("t"))), ["TimedOut"])
        yield* Effect.sleep("10 minutes")
        assert.isAtMost(state.told.length, 20)
        assert.notInclude(state.told, "release")
        state.isBroken = false
        yield* Effect.sleep("1 minute")
        assert.deepStrictEqual(state.told.slice(-2), ["settle", "release"])
        state.isBroken = true
        yield* env.process.executeWave([call("2", "t", { b: 1 })])
        yield* Scope.close(scope, Exit.void)
        yield* Effect.sleep(100)
        const { length } = state.told
        yield* Effect.sleep("1 hour")
        assert.lengthOf(state.told, length)
      }),
      { limit: "1 day" }
    ))

  it.effect("holds the outcome no longer than its turn lasts", () =>
    run(
      { t: () => Effect.sleep(1_500) },
      { turn: { timeout: "2 seconds" }, store: { ...StateStore.makeMemory(), settle: () => Effect.never } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
          assert.strictEqual(yield* VirtualTime.now, 2_000)
        })
    ))
})

describe("what else an executor leans on", () => {
  for (const [way, answer] of Object.entries(ways)) {
    it.effect(`whatever it is, fails and hangs nothing when it ${way}`, () => {
      const artifacts = { put: answer, read: answer } as unknown as ArtifactStore.ArtifactStore["Service"]
      const checkpoints = {
        save: answer,
        list: answer,
        content: answer,
        forget: answer
      } as unknown as Checkpoints.Checkpoints["Service"]
      return Effect.gen(function*() {
        const { closed, outcomes, took } = yield* everything({ artifacts, checkpoints })
        assert.deepStrictEqual(outcomes.slice(0, 5), ["Succeeded", "Succeeded", "Succeeded", "TimedOut", "Succeeded"])
        assert.isTrue(Exit.isSuccess(closed))
        assert.isAtMost(took, 60_000)
        const kept = yield* run(
          {
            t: () =>
              Effect.flatMap(
                ToolContext.ToolContext,
                (context) => Effect.map(Effect.exit(context.artifact("x")), (exit) => exit._tag)
              )
          },
          { artifacts },
          ({ process }) => process.executeWave(calls("t"))
        )
        assert.include(["Failure", "Success"], value(kept.outcomes[0]))
      })
    }, { tags: ["A6"] })
  }
})
