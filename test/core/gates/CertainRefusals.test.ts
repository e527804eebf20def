/**
 * Calls that nobody can allow: they are refused before the rest of their run is judged, and
 * the rest is judged as if they were not there.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import { ToolAnnotations, type ToolOutcome, type ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, type Env, open, type Options, tags, type ToolSpec } from "../../support/Harness.ts"

/** What is about the bank is asked about. */
const paying = (takes = 10): ToolSpec => ({
  class: "ConcurrentMut",
  handler: ({ fails, to }) =>
    Effect.andThen(Effect.sleep(takes), fails === true ? Effect.fail("no") : Effect.succeed(to)),
  annotate: (tool) => tool.annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { to: string }).to }])
})
const tools = { pay: paying(), send: paying(), read: { handler: () => Effect.succeed("read") } }
const asks = { default: "allow", ask: ["pay(bank)", "send(bank)"] } as const

const pay = (id: string, to: string, n = 0) => call(id, "pay", { to, n })
const send = (id: string, to: string) => call(id, "send", { to })

type Program<E> = (env: Env) => Effect.Effect<void, E, Scope.Scope>

/** Why nobody can allow it. */
const ways: {
  readonly [way: string]: <E>(options: Options, program: Program<E>) => Effect.Effect<void, E, Scope.Scope>
} = {
  "there is no approver": (options, program) => Effect.flatMap(open(tools, options), program),
  "its process asks nobody": (options, program) =>
    Effect.gen(function*() {
      const env = yield* open(tools, { ...options, approvals: yield* Effect.orDie(Approvals.make()) })
      yield* program({ ...env, process: yield* env.batch.process({ approvals: "nobody" }) })
    }),
  "its permission was revoked": (options, program) =>
    Effect.gen(function*() {
      const people = yield* Effect.orDie(Approvals.make())
      const env = yield* open(tools, { ...options, approvals: people })
      const asked = yield* env.executor.batch()
      const one = yield* Effect.forkChild((yield* asked.process()).execute(pay("0", "bank", -1)))
      yield* Effect.sleep(1)
      const [request] = yield* people.list
      yield* Effect.orDie(people.answer(request!.id, { _tag: "ApproveForScope", scope: "tool" }))
      assert.strictEqual((yield* Fiber.join(one))._tag, "Succeeded")
      yield* Effect.orDie(env.executor.revoke({ tool: "pay" }))
      // whatever rests after that rests no more
      yield* Effect.sleep("2 hours")
      yield* program({ ...env, process: yield* env.batch.process({ approvals: "nobody" }) })
    })
}

const nobody = (outcome: ToolOutcome.ToolOutcome | undefined): string | undefined =>
  outcome?._tag === "Denied" && outcome.reason._tag === "PermissionDenied" ? outcome.reason.by : undefined

const cases: ReadonlyArray<{
  readonly what: string
  readonly options?: Options
  readonly rules?: ReadonlyArray<ToolRule.ToolRule>
  readonly wave: ReadonlyArray<ReturnType<typeof call>>
  /** Of each call: `no` if nobody can allow it. */
  readonly says: ReadonlyArray<string>
}> = [
  { what: "no key", wave: [pay("1", "bank"), pay("2", "bank")], says: ["no", "no"] },
  {
    what: "no key that others could join",
    options: { dedupe: { inFlight: "join" } },
    wave: [pay("1", "bank"), pay("2", "bank")],
    says: ["no", "no"]
  },
  {
    what: "no key whose outcome could be replayed",
    options: { dedupe: { onDuplicate: "replay" } },
    wave: [pay("1", "bank"), pay("2", "bank"), pay("3", "ada")],
    says: ["no", "no", "Succeeded"]
  },
  {
    what: "none of the calls of its tool",
    rules: [{ _tag: "MaxCalls", tool: "pay", max: 1 }],
    wave: [pay("1", "bank"), pay("2", "ada"), pay("3", "bob")],
    says: ["no", "Succeeded", "RuleViolation"]
  },
  {
    what: "none of the calls of its tool, wherever it stands",
    rules: [{ _tag: "MaxCalls", tool: "pay", max: 1 }],
    wave: [pay("1", "ada"), pay("2", "bank"), pay("3", "bank")],
    says: ["Succeeded", "no", "no"]
  },
  {
    what: "no choice of a group",
    rules: [{ _tag: "ExclusiveGroup", tools: ["pay", "send"] }],
    wave: [pay("1", "bank"), send("2", "ada"), pay("3", "ada")],
    says: ["no", "Succeeded", "RuleViolation"]
  },
  {
    what: "no rest",
    rules: [{ _tag: "Cooldown", tool: "pay", duration: "1 hour" }],
    wave: [pay("1", "bank"), pay("2", "ada")],
    says: ["no", "Succeeded"]
  },
  {
    what: "not the last call of the turn",
    options: { turn: { maxCalls: 1 } },
    wave: [pay("1", "bank"), pay("2", "ada"), pay("3", "bob")],
    says: ["no", "Succeeded", "CallBudgetExhausted"]
  },
  {
    what: "no token of a rate",
    options: { tools: { pay: { rateLimit: { limit: 1, window: "1 hour" } } } },
    wave: [pay("1", "bank"), pay("2", "ada"), pay("3", "bob")],
    says: ["no", "Succeeded", "RateLimited"]
  }
]

describe("a call that cannot get approval", () => {
  for (const [way, begin] of Object.entries(ways)) {
    for (const approval of ["perCall", "upfront"] as const) {
      for (const { options, rules, says, wave, what } of cases) {
        it.effect(`reserves ${what}, where ${way} (${approval})`, () => {
          const all: Options = { ...options, rules: rules ?? [], policy: asks, approval }
          return VirtualTime.run(
            Effect.scoped(begin(all, ({ process }) =>
              Effect.gen(function*() {
                const result = yield* process.executeWave(wave)
                const said = result.outcomes.map((it, index) =>
                  nobody(it) === "noApprover" ? "no" : tags(result)[index]
                )
                assert.deepStrictEqual<ReadonlyArray<string | undefined>>(said, says)
              }))),
            { limit: "1 day" }
          )
        }, { tags: ["G8"] })
      }
    }
  }
})

const noOne = (options: Options, program: Program<unknown>) =>
  VirtualTime.run(
    Effect.scoped(Effect.flatMap(open(tools, { policy: asks, ...options }), (env) => Effect.orDie(program(env)))),
    { limit: "1 day" }
  )

describe("a call that cannot get approval is refused", () => {
  it.effect("before the guards of the host are asked, which would let it try a circuit", () =>
    noOne(
      { tools: { pay: { circuitBreaker: { failures: 1, openFor: "30 seconds" } } }, dedupe: false },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.execute(call("0", "pay", { to: "ada", fails: true }))
          yield* Effect.sleep("30 seconds")
          const wave = yield* process.executeWave([pay("1", "bank"), pay("2", "ada"), pay("3", "bob")])
          assert.deepStrictEqual(tags(wave), ["PermissionDenied", "Succeeded", "CircuitOpen"])
        })
    ), { tags: ["G8"] })

  it.effect("before a rule of order is told, which would only lead to the same refusal", () =>
    noOne(
      { rules: [{ _tag: "RequiresPrecedingTools", tool: "pay", tools: ["read"] }] },
      ({ process }) =>
        Effect.map(process.executeWave([pay("1", "bank"), pay("2", "ada")]), (wave) =>
          assert.deepStrictEqual(tags(wave), ["PermissionDenied", "RuleViolation"]))
    ))

  it.effect("with a word about the store, where that cannot say what is allowed", () =>
    Effect.gen(function*() {
      const driver = StateStore.makeMemory()
      let reserved = 0
      const store: StateStore.StateStore["Service"] = {
        ...driver,
        grants: () => Effect.fail(new StateStore.StateStoreError({ operation: "grants", cause: "down" })),
        reserve: (requests, now) => {
          reserved += requests.length
          return driver.reserve(requests, now)
        }
      }
      yield* noOne({ store }, ({ process }) =>
        Effect.map(process.executeWave([pay("1", "bank"), pay("2", "bank")]), (wave) =>
          assert.deepStrictEqual(
            wave.outcomes.map((it) =>
              it._tag === "Denied" && it.reason
            ),
            [
              { _tag: "StoreUnavailable", operation: "grants" },
              { _tag: "StoreUnavailable", operation: "grants" }
            ]
          )))
      assert.strictEqual(reserved, 0)
    }))
})

describe("a permission that is revoked while a call waits that it let through", () => {
  const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "MaxCalls", tool: "pay", max: 2 }]
  const waiting = (
    program: (env: Env, waiting: Fiber.Fiber<ToolOutcome.WaveResult>) => Effect.Effect<void, never, Scope.Scope>
  ) =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Effect.orDie(Approvals.make())
        const hold: ToolSpec = { class: "ConcurrentMut", handler: () => Effect.sleep("1 minute") }
        const env = yield* open({ ...tools, hold }, { policy: asks, rules, pools: { concurrent: 1 }, approvals })
        const first = yield* Effect.forkChild(env.process.execute(pay("0", "bank", -1)))
        yield* Effect.sleep(1)
        yield* Effect.orDie(approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveForScope" }))
        yield* Fiber.join(first)
        yield* Effect.forkChild((yield* env.batch.process()).execute(call("h", "hold", {})))
        yield* Effect.sleep(1)
        const wave = yield* Effect.forkChild(env.process.executeWave([pay("1", "bank")]))
        yield* Effect.sleep(1)
        yield* program(env, wave)
      })),
      { limit: "1 day" }
    )

  it.effect(
    "refuses it immediately, and gives back what it had reserved",
    () =>
      waiting(({ batch, executor }, waiting) =>
        Effect.gen(function*() {
          yield* Effect.orDie(executor.revoke({ tool: "pay" }))
          yield* Effect.yieldNow
          assert.deepInclude((waiting.pollUnsafe() as { value?: ToolOutcome.WaveResult }).value?.outcomes[0], {
            reason: {
              _tag: "PermissionDenied",
              by: "user",
              reason: "revoked",
              permission: "pay(bank)",
              scope: "resources"
            }
          })
          const other = yield* batch.process({ approvals: "nobody" })
          const wave = yield* other.executeWave([pay("2", "bank"), pay("3", "ada"), pay("4", "bob")])
          assert.deepStrictEqual(tags(wave), ["PermissionDenied", "Succeeded", "RuleViolation"])
        })
      ),
    { tags: ["AP10"] }
  )
})
