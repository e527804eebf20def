/**
 * What happens to a call while it waits for something, and which of several
 * reasons it is told: the first gate that says no.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as Pools from "../../../../src/core/gates/Pools.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import * as ToolCall from "../../../../src/core/vocabulary/ToolCall.ts"
import {
  type FileChange,
  Gate,
  LocalExecutor,
  Rules,
  ToolAnnotations,
  ToolContext,
  ToolExecutor,
  ToolHandlers,
  type ToolRule
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import {
  call,
  calls,
  type Env,
  type Handler,
  open,
  type Options,
  run,
  tags,
  toolkit,
  type ToolSpec,
  value
} from "../../../support/Harness.ts"

type Store = StateStore.StateStore["Service"]
type People = Approvals.Approvals["Service"]

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1_000))

/** Gives its parameters back when it has slept. */
const echo: Handler = (params) => Effect.as(sleeper(params), params)

const w = { class: "ConcurrentMut", handler: echo } as const

/** A store in memory, some of whose answers are others. */
const store = (change: (memory: Store) => Partial<Store>): Store => {
  const memory = StateStore.makeMemory()
  return { ...memory, ...change(memory) }
}

/** A store that answers `reserve` so many milliseconds later. */
const slow = (millis: number) =>
  store((memory) => ({
    reserve: (requests, now) => Effect.delay(Effect.suspend(() => memory.reserve(requests, now)), millis)
  }))

const consent = (tool: string, scope?: "call" | "resources" | "tool"): ToolRule.ToolRule => ({
  _tag: "RequiresConsent",
  tool,
  ...(scope === undefined ? {} : { scope })
})

/** An executor with somebody to ask. */
const asking = <A, E>(
  tools: Readonly<Record<string, ToolSpec | Handler>>,
  options: Options,
  program: (env: Env & { readonly people: People }) => Effect.Effect<A, E, Scope.Scope>
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const env = yield* open(tools, { rules: [consent("w")], ...options, approvals: people })
      return yield* program({ ...env, people })
    })),
    { limit: "1 day" }
  )

const later = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const pending = (people: People) => Effect.map(people.list, (all) => all.map((it) => it.callId))

const yes = { _tag: "ApproveOnce" } as const

const answer = (people: People, callId: string, answer: Approvals.Answer = yes) =>
  Effect.flatMap(people.list, (all) => people.answer(all.find((it) => it.callId === callId)?.id ?? "none", answer))

describe("a call that several gates refuse is told of the first", () => {
  it.effect("of a tool that is not there, whatever its arguments are", () =>
    run({ w }, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave([ToolCall.fromText("1", "nope", "{ no JSON")])
        assert.deepStrictEqual(tags(wave), ["ToolNotFound"])
      })))

  it.effect("of a turn that is used up before a tool that is blocked", () =>
    run(
      {
        t: {
          handler: () => Effect.fail("no"),
          annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
        }
      },
      { mode: "sequential", turn: { maxCalls: 1 } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), ["Failed", "CallBudgetExhausted"])
        })
    ))

  it.effect("of a turn that ends while a guard thinks before the guard's no", () =>
    run(
      { w },
      {
        turn: { timeout: "1 second" },
        guards: [{ name: "slow", check: () => Effect.andThen(Effect.sleep("2 seconds"), Effect.fail("no")) }],
        guardTimeout: "5 seconds"
      },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["DeadlineExceeded"])
        })
    ))

  it.effect("of targets too long to be compared before a policy that denies the tool", () =>
    run(
      {
        w: {
          ...w,
          annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => [{ text: "x".repeat(2_000_000) }])
        }
      },
      { policy: { default: "deny", allow: ["w(y*)"] } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["InvalidParameters"])
        })
    ))
})

describe("a call that is cancelled while its arguments are decoded", () => {
  it.effect("is not asked what it is about", () => {
    let looked = 0
    let onDecode: () => void = () => {}
    const tool = Tool.make("t", {
      parameters: Schema.Struct({
        at: Schema.String.pipe(Schema.decodeTo(Schema.String, {
          decode: SchemaGetter.transform((text: string) => {
            onDecode()
            return text
          }),
          encode: SchemaGetter.transform((text: string) => text)
        }))
      }),
      success: Schema.Unknown
    }).annotate(Tool.Readonly, true).annotate(ToolAnnotations.Targets, () => {
      looked++
      return [{ text: "a" }]
    })
    return run(
      { t: { handler: () => Effect.void, tool } },
      { policy: { default: "allow", deny: ["t(b)"] } },
      ({ process }) =>
        Effect.gen(function*() {
          const context = yield* Effect.context<never>()
          onDecode = () => Effect.runForkWith(context)(process.cancelCall("1"))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { at: "x" }]))), ["Cancelled"])
          assert.strictEqual(looked, 0)
        })
    )
  })
})

describe("a call that is cancelled while a store reserves for the others, too,", () => {
  const cancelled = ({ process }: Env) =>
    Effect.gen(function*() {
      yield* later(Effect.delay(process.cancelCall("1"), 10))
      const wave = yield* process.executeWave(calls(["w", { n: 1 }], ["w", { n: 2 }]))
      assert.deepStrictEqual(tags(wave), ["Cancelled", "Succeeded"])
    })

  it.effect("has what was reserved for it given back", () =>
    run({ w }, { store: slow(100) }, (env) =>
      Effect.gen(function*() {
        yield* cancelled(env)
        assert.deepStrictEqual(tags(yield* env.process.executeWave([call("3", "w", { n: 1 })])), ["Succeeded"])
      })))

  it.effect("is told of at once", () =>
    run({ w }, { store: slow(100) }, (env) =>
      Effect.gen(function*() {
        const completed: Array<readonly [string, number]> = []
        yield* later(Stream.runForEach(env.process.events, (it) =>
          Effect.sync(() => {
            if (it._tag === "ToolCallComplete") completed.push([it.callId, it.at])
          })))
        yield* cancelled(env)
        assert.deepStrictEqual(completed, [["1", 10], ["2", 1_100]])
      })))

  it.effect("is not counted in its turn", () =>
    run({ w }, { store: slow(100), turn: { maxCalls: 2 } }, (env) =>
      Effect.gen(function*() {
        yield* cancelled(env)
        assert.deepStrictEqual(tags(yield* env.process.executeWave([call("3", "w", { n: 3 })])), ["Succeeded"])
      })))
})

describe("a store that is slow to reserve", () => {
  it.effect("has nobody asked about a call that is out of order when it answers", () =>
    asking(
      { a: w, w },
      {
        store: store((memory) => ({
          reserve: (requests, now) =>
            Effect.delay(Effect.suspend(() => memory.reserve(requests, now)), requests[0]?.owner === "w" ? 5_000 : 1)
        })),
        rules: [consent("w"), { _tag: "RequiresFollowingTools", tool: "w", tools: ["a"] }]
      },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave([call("w", "w", {})]))
          assert.deepStrictEqual(tags(yield* process.executeWave([call("a", "a", {})])), ["Succeeded"])
          yield* Effect.sleep("10 seconds")
          assert.deepStrictEqual(yield* pending(people), [])
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["RuleViolation"])
        })
    ))
})

describe("a call that gets what an equal one has", () => {
  it.effect("does not, where a person has refused it up front", () =>
    asking(
      { w },
      { approval: "upfront", dedupe: { inFlight: "join" } },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["w", {}], ["w", {}])))
          yield* answer(people, "1")
          yield* answer(people, "2", { _tag: "Deny" })
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "PermissionDenied"])
        })
    ))

  it.effect("runs itself where a person has refused that one up front", () =>
    asking(
      { w },
      { approval: "upfront", dedupe: { inFlight: "join" } },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["w", {}], ["w", {}])))
          yield* answer(people, "1", { _tag: "Deny" })
          yield* answer(people, "2")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PermissionDenied", "Succeeded"])
        })
    ))

  it.effect("runs itself where a person gives that one other arguments, and is not ended by it", () =>
    asking({ w }, { dedupe: { inFlight: "join" } }, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls(["w", { sleep: 1_000 }], ["w", { sleep: 1_000 }])))
        yield* answer(people, "2")
        yield* answer(people, "1", { ...yes, params: { sleep: 10 } })
        const { outcomes } = yield* Fiber.join(wave)
        assert.deepStrictEqual(outcomes.map(value), [{ sleep: 10 }, { sleep: 1_000 }])
        assert.notProperty(outcomes[1], "replayOf")
      })))

  it.effect("is not counted in the turn any more where its edited arguments made it one", () =>
    asking(
      { w },
      { dedupe: { inFlight: "join" }, turn: { maxCalls: 2 } },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["w", { n: 1 }], ["w", { n: 2 }])))
          yield* answer(people, "1")
          yield* answer(people, "2", { ...yes, params: { n: 1 } })
          const { outcomes } = yield* Fiber.join(wave)
          assert.deepInclude(outcomes[1], { _tag: "Succeeded", replayOf: "1" })
          const next = yield* later(process.executeWave([call("3", "w", { n: 3 })]))
          yield* answer(people, "3")
          assert.deepStrictEqual(tags(yield* Fiber.join(next)), ["Succeeded"])
        })
    ))
})

describe("calls whose keys are looked up", () => {
  const keyed: ToolSpec = {
    ...w,
    annotate: (tool) =>
      tool.annotate(ToolAnnotations.Resources, (params) => {
        const { look = 0 } = params as { readonly look?: number }
        return look === 0 ? ["k"] : Effect.delay(Effect.succeed(["k"]), look)
      })
  }

  it.effect("get in line in their order, however long each look-up takes", () =>
    run({ keyed }, {}, ({ process }) =>
      Effect.gen(function*() {
        const { outcomes } = yield* process.executeWave(
          calls(["keyed", { look: 100 }], ["keyed", { n: 2 }], ["keyed", { n: 3 }])
        )
        assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [100, 1_100, 2_100])
      })))

  it.effect("hold up nobody behind them once they are cancelled", () =>
    run({ keyed }, {}, ({ process }) =>
      Effect.gen(function*() {
        yield* later(Effect.delay(process.cancelCall("1"), 10))
        const { outcomes } = yield* process.executeWave(calls(["keyed", { look: 5_000 }], ["keyed", { n: 2 }]))
        assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [undefined, 10])
      })))
})

describe("a write that a person is asked about from inside a handler", () => {
  const change: ReadonlyArray<FileChange.FileChange> = [{ path: "a", before: "1", after: "2" }]
  const patch: ToolSpec = {
    class: "SerialMut",
    handler: () =>
      Effect.gen(function*() {
        const context = yield* ToolContext.ToolContext
        yield* Effect.sleep(10)
        yield* context.confirmWrite(Effect.succeed(change))
        return yield* VirtualTime.now
      })
  }
  const policy = { default: "allow", ask: ["patch(*)"] } as const

  it.effect("waits for the permit that another call got meanwhile", () =>
    asking(
      { patch, other: { ...w, class: "SerialMut" } },
      { policy, rules: [] },
      ({ batch, people, process }) =>
        Effect.gen(function*() {
          const patching = yield* later(process.execute(call("1", "patch", {})))
          yield* Effect.sleep(20)
          const other = yield* batch.process()
          yield* later(other.execute(call("2", "other", {})))
          yield* answer(people, "1")
          assert.strictEqual(value(yield* Fiber.join(patching)), 1_020)
        })
    ))

  it.effect("leaves the turn's clock right when its call is cancelled meanwhile", () =>
    asking({ patch, w }, { policy, turn: { timeout: "1 minute" } }, ({ people, process }) =>
      Effect.gen(function*() {
        const patching = yield* later(process.execute(call("1", "patch", {})))
        yield* Effect.sleep(20)
        assert.deepStrictEqual(yield* pending(people), ["1"])
        yield* process.cancelCall("1")
        yield* Fiber.join(patching)
        // the clock stands still while nothing but a question is open
        const wave = yield* later(process.executeWave([call("2", "w", {})]))
        yield* Effect.sleep("2 minutes")
        yield* answer(people, "2")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      })))

  it.effect("stops the time of its call until it is answered, whatever else is asked meanwhile", () =>
    asking(
      {
        both: {
          class: "ConcurrentMut",
          handler: () =>
            Effect.scoped(Effect.gen(function*() {
              const context = yield* ToolContext.ToolContext
              const child = yield* context.executor!.fork()
              const inner = yield* child.process()
              const asked = inner.executeWave([call("inner", "w", { sleep: 1 })])
              yield* Effect.all([context.confirmWrite(Effect.succeed(change)), asked], { concurrency: 2 })
            })),
          annotate: (tool) => tool.annotate(ToolAnnotations.Recursive, true)
        },
        w
      },
      { policy: { default: "allow", ask: ["both(*)"] }, executionTimeout: "3 seconds" },
      ({ people, process }) =>
        Effect.gen(function*() {
          const running = yield* later(process.execute(call("outer", "both", {})))
          yield* Effect.sleep("10 seconds")
          assert.sameMembers([...yield* pending(people)], ["outer", "inner"])
          yield* answer(people, "inner")
          yield* Effect.sleep("10 seconds")
          yield* answer(people, "outer")
          assert.strictEqual((yield* Fiber.join(running))._tag, "Succeeded")
        })
    ))
})

describe("a grant", () => {
  const grant = { _tag: "ApproveForScope" } as const

  it.effect("that is revoked while a slow store tells of it does not count", () => {
    let millis = 0
    const late = store((memory) => ({
      grants: (principal, at) => {
        const known = memory.grants(principal, at)
        return millis === 0 ? known : Effect.delay(known, millis)
      }
    }))
    return asking({ w }, { store: late }, ({ executor, people, process }) =>
      Effect.gen(function*() {
        const first = yield* later(process.executeWave([call("1", "w", {})]))
        yield* answer(people, "1", grant)
        assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
        millis = 100
        const next = yield* later(process.executeWave([call("2", "w", { n: 2 })]))
        yield* Effect.sleep(50)
        millis = 0
        yield* executor.revoke({ tool: "w" })
        yield* Effect.sleep(100)
        yield* answer(people, "2")
        assert.deepStrictEqual(tags(yield* Fiber.join(next)), ["Succeeded"])
      }))
  })

  it.effect("does not count where a rule wants an answer to each call", () => {
    const shared = StateStore.makeMemory()
    return asking({ w }, { store: shared }, ({ people, process }) =>
      Effect.gen(function*() {
        const first = yield* later(process.executeWave(calls("w")))
        yield* answer(people, "1", grant)
        assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
        const approvals = yield* Approvals.make()
        const strict = yield* open({ w }, { store: shared, approvals, rules: [consent("w", "call")] })
        yield* later(strict.process.executeWave(calls("w")))
        assert.deepStrictEqual(yield* pending(approvals), ["1"])
      }))
  })

  it.effect("that was given just now holds for its call, though the store cannot tell of it", () => {
    const unable = store(() => ({
      grants: () => Effect.fail(new StateStore.StateStoreError({ operation: "grants", cause: "no" }))
    }))
    return asking({ w }, { store: unable }, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls("w")))
        yield* answer(people, "1", grant)
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      }))
  })
})

describe("calls that wait, up front, until nobody is asked any more", () => {
  it.effect("go on in their order", () =>
    asking(
      { a: { class: "ConcurrentMut", handler: () => Effect.fail("no") }, r: w, w },
      {
        approval: "upfront",
        pools: { concurrent: 1 },
        // nobody could know that `a` fails, after which `w` may run
        rules: [consent("w"), { _tag: "RequiresFollowingTools", tool: "w", tools: ["a"] }]
      },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls("a", "r", "r", "r", "w")))
          yield* Effect.sleep(50)
          yield* answer(people, "5", { _tag: "Deny" })
          const { outcomes } = yield* Fiber.join(wave)
          assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [0, 50, 1_050, 2_050, undefined])
        })
    ))
})

describe("a call that a gate of the host cancels while it is asked", () => {
  it.effect("stays cancelled, though the gate lets it pass", () => {
    let cancel: Effect.Effect<void> = Effect.void
    const gate = Gate.layer({ name: "canceller", arrive: () => Effect.suspend(() => cancel) })
    return run({ w }, { swap: gate as Layer.Layer<never> }, ({ process }) =>
      Effect.gen(function*() {
        cancel = process.cancelCall("1")
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["Cancelled"])
      }))
  })
})

describe("arguments that a person edits up front", () => {
  it.effect("arrive once nobody is asked about the wave any more", () => {
    const arrived: Array<readonly [unknown, number]> = []
    const gate = Gate.layer({
      name: "arrivals",
      arrive: ({ params }) => Effect.map(VirtualTime.now, (now) => void arrived.push([params, now]))
    })
    return asking(
      { w },
      { approval: "upfront", swap: gate as Layer.Layer<never> },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["w", { n: 1 }], ["w", { n: 2 }])))
          yield* Effect.sleep(10)
          yield* answer(people, "1", { ...yes, params: { n: 3 } })
          yield* Effect.sleep(10)
          yield* answer(people, "2")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
          assert.deepStrictEqual(arrived, [[{ n: 1 }, 0], [{ n: 2 }, 0], [{ n: 3 }, 20]])
        })
    )
  })
})

describe("a handler", () => {
  it.effect("finds the services of whoever hands its wave over, each time", () => {
    const Who = Context.Reference<string>("Meanwhile/Who", { defaultValue: () => "nobody" })
    return run({ t: () => Effect.map(Who, (it) => it) }, { dedupe: false }, ({ process }) =>
      Effect.gen(function*() {
        const asked = (who: string) =>
          Effect.map(Effect.provideService(process.executeWave(calls("t")), Who, who), ({ outcomes }) =>
            value(outcomes[0]))
        assert.strictEqual(yield* asked("ada"), "ada")
        assert.strictEqual(yield* asked("bob"), "bob")
      }))
  })

  it.effect("has the waves ended that it began and did not wait for", () => {
    let began: Effect.Effect<unknown> = Effect.void
    const inner: Array<ReadonlyArray<string>> = []
    return run(
      { w, t: () => Effect.andThen(Effect.forkDetach(began), Effect.sleep(100)) },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          began = Effect.map(process.executeWave(calls("w")), (wave) => inner.push(tags(wave)))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
          yield* Effect.sleep(1)
          assert.deepStrictEqual(inner, [["Cancelled"]])
        })
    )
  })

  it.effect("begins nothing any more once its call is over", () => {
    let began: Effect.Effect<unknown> = Effect.void
    const inner: Array<ReadonlyArray<string>> = []
    const tools = { w, t: () => Effect.asVoid(Effect.forkDetach(Effect.delay(Effect.suspend(() => began), 50))) }
    return run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        began = Effect.map(process.executeWave(calls("w")), (wave) => inner.push(tags(wave)))
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
        yield* Effect.sleep(2_000)
        assert.deepStrictEqual(inner, [["Cancelled"]])
      }))
  })
})

describe("rules that are replaced while a wave runs", () => {
  it.effect("count from its next call on", () => {
    let set: Effect.Effect<void> = Effect.void
    const { handlers, kit } = toolkit({
      t: { class: "SerialMut", handler: () => Effect.void },
      swap: { class: "SerialMut", handler: () => Effect.suspend(() => set) }
    })
    const layer = Layer.fresh(ToolExecutor.layer).pipe(
      Layer.provide(LocalExecutor.layerGates({ dedupe: false, policy: { default: "allow" } })),
      Layer.provideMerge(Rules.layerRef([])),
      Layer.provide(ToolHandlers.layer(kit)),
      Layer.provide(handlers)
    )
    return VirtualTime.run(Effect.scoped(Effect.provide(
      Effect.gen(function*() {
        set = Effect.orDie((yield* Rules.RulesRef).set([{ _tag: "MaxCalls", tool: "t", max: 1 }]))
        const process = yield* (yield* ToolExecutor.ToolExecutor).process()
        assert.deepStrictEqual(
          tags(yield* process.executeWave(calls("t", "swap", "t", "t"))),
          ["Succeeded", "Succeeded", "Succeeded", "RuleViolation"]
        )
      }),
      layer
    )))
  })
})

describe("pools that die while a call waits for its permits", () => {
  it.effect("leave the call with an outcome, and the wave with its end", () =>
    Effect.gen(function*() {
      const own = yield* Pools.make()
      const dying = Pools.Pools.of({ ...own, enter: () => Effect.delay(Effect.die("no"), 10) })
      yield* run({ w }, { pools: Layer.succeed(Pools.Pools, dying) }, ({ process }) =>
        Effect.gen(function*() {
          const { outcomes } = yield* process.executeWave(calls("w"))
          assert.deepInclude(outcomes[0], { _tag: "Failed", origin: "defect" })
        }))
    }))
})
