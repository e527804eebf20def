/**
 * What an operator finds in the log where something dies on the way of a call: its
 * whole cause, once, and which call that was. Models and clients are told none of it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as ToolExecutor from "../../../../src/core/engine/ToolExecutor.ts"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as Journal from "../../../../src/core/store/Journal.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { Dedupe, Gate, Permissions, Rules, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

interface Line {
  readonly level: string
  readonly cause: string
  readonly annotations: { readonly [key: string]: unknown }
}

/** Whose stack names this function, and nothing else does. */
const theBrokenPart = (): never => {
  throw new Error("the secret reason")
}

const dies = Effect.sync(theBrokenPart)

/** Runs a program; gives what was logged of parts that died, and what the model is told. */
const logged = <A>(program: Effect.Effect<A, unknown, Scope.Scope>) =>
  Effect.gen(function*() {
    const lines: Array<Line> = []
    const logger = Logger.make(({ cause, fiber, logLevel }) => {
      lines.push({
        level: logLevel,
        cause: Cause.pretty(cause),
        annotations: fiber.getRef(References.CurrentLogAnnotations)
      })
    })
    const seen = yield* VirtualTime.run(Effect.scoped(program), { limit: "1 day" }).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(ToolExecutor.Principal, "ada")
    )
    return { lines, seen: JSON.stringify(seen) }
  })

/** Runs a wave of one call, and waits for what it leaves behind. */
const wave = (
  handler: Harness.ToolSpec | Harness.Handler,
  options: Harness.Options = {},
  params: unknown = {}
) =>
  Effect.gen(function*() {
    const { process } = yield* Harness.open({ t: handler }, options)
    const { toolMessages } = yield* process.executeWave([Harness.call("call-1", "t", params)])
    yield* Effect.sleep("1 hour")
    return toolMessages
  })

const fine: Harness.Handler = () => Effect.succeed("fine")

const limited = [{ _tag: "MaxCalls", tool: "t", max: 10 }] as const

/** A store one of whose answers is another. */
const store = (change: Partial<StateStore.StateStore["Service"]>) => ({ ...StateStore.makeMemory(), ...change })

/** A gate of the executor's own, one of whose methods throws. */
const broken = <I, S extends object>(
  key: Context.Key<I, S>,
  method: keyof S
) =>
  Layer.effect(
    key,
    Effect.map(key as unknown as Effect.Effect<S, never, I>, (service) =>
      new Proxy(service, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name)
          return name === method ? theBrokenPart : typeof value === "function" ? value.bind(target) : value
        }
      }))
  ) as unknown as Layer.Layer<never, never, ToolExecutor.Gates>

const writer: Harness.ToolSpec = { class: "SerialMut", handler: fine }

const shell: Harness.ToolSpec = { ...writer, annotate: (tool) => tool.annotate(ToolAnnotations.ChangesFiles, true) }

const parts: { readonly [name: string]: Effect.Effect<unknown, unknown, Scope.Scope> } = {
  "a handler": wave(() => dies),
  "a handler that throws": wave(() => theBrokenPart()),
  "a handler that was stopped already": wave({
    annotate: (tool) => tool.annotate(ToolAnnotations.Timeout, "1 second"),
    handler: () => Effect.onInterrupt(Effect.never, () => Effect.andThen(Effect.sleep(10), dies))
  }),
  "a guard": wave(fine, { swap: Gate.layer({ name: "g", guard: () => dies }) }),
  "a guard that throws": wave(fine, {
    swap: Gate.layer({ name: "g", guard: (): Effect.Effect<void> => theBrokenPart() })
  }),
  "a gate's settle": wave(fine, { swap: Gate.layer({ name: "g", guard: () => Effect.void, settle: () => dies }) }),
  "a policy": wave(fine, {
    permissions: Layer.succeed(Permissions.Permissions, {
      decide: theBrokenPart,
      needsTargets: () => false,
      sees: () => true
    })
  }),
  "rules": wave(fine, { rules: limited, swap: broken(Rules.Rules, "check") }),
  "the claims of rules": wave(fine, { rules: limited, swap: broken(Rules.Rules, "claims") }),
  "dedupe": wave(fine, { swap: broken(Dedupe.Dedupe, "claim") }),
  "a state store": wave(fine, { rules: limited, store: store({ reserve: () => dies }) }),
  "a state store that throws": wave(fine, { rules: limited, store: store({ reserve: theBrokenPart }) }),
  "the grants of a state store": Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    return yield* wave(fine, { policy: { default: "ask" }, approvals, store: store({ grants: () => dies }) })
  }),
  "a state store that is told of a start": wave(fine, {
    rules: limited,
    store: store({
      reserve: (requests, now) =>
        Effect.map(
          StateStore.makeMemory().reserve(requests, now),
          (all) => all.map((it) => "id" in it ? { ...it, leaseMillis: 60_000 } : it)
        ),
      start: () => dies,
      settle: () => Effect.succeed(true)
    })
  }),
  "a state store that is told of an outcome": wave(fine, { rules: limited, store: store({ settle: () => dies }) }),
  // it is told at the start and at the end
  "a state store that is told of a change": Effect.suspend(() => {
    let told = 0
    const mutated = () => ++told === 1 ? dies : Effect.void
    return wave({ class: "SerialMut", handler: fine }, { store: store({ mutated }) })
  }),
  "people": Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    return yield* wave(fine, { policy: { default: "ask" }, approvals: { ...approvals, submit: () => dies } })
  }),
  "who makes requests": Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    return yield* wave(fine, { policy: { default: "ask" }, approvals: { ...approvals, request: () => dies } })
  }),
  "an artifact store": wave(() => Effect.succeed("x".repeat(50_000)), {
    artifacts: { put: () => dies, read: () => dies }
  }),
  "an artifact store that a handler uses": wave(
    () => Effect.as(Effect.flatMap(ToolContext.ToolContext, (context) => context.artifact("x")), "fine"),
    { artifacts: { put: () => dies, read: () => dies } }
  ),
  "checkpoints": wave(shell, {
    checkpoints: {
      save: () => dies,
      list: () => Effect.succeed([]),
      content: () => dies,
      forget: () => Effect.void
    }
  })
}

describe("the log", () => {
  for (const [name, program] of Object.entries(parts)) {
    it.effect(`has the whole cause of ${name}, once, and which call that was`, () =>
      Effect.gen(function*() {
        const { lines, seen } = yield* logged(program)
        const told = lines.filter(({ cause }) => cause.includes("the secret reason"))
        assert.strictEqual(told.length, 1, JSON.stringify(lines))
        const [{ annotations, cause, level }] = told as [Line]
        assert.strictEqual(level, "Warn")
        assert.include(cause, "theBrokenPart", "the stack says where it died")
        assert.deepStrictEqual(annotations, {
          "gen_ai.tool.name": "t",
          "gen_ai.tool.call.id": "call-1",
          "tool_executor.principal": "ada"
        })
        assert.notInclude(seen, "secret reason")
      }), { tags: ["TE3"] })
  }

  it.effect("has the whole cause of a journal, once for all calls that wait for it, and whose they are", () =>
    Effect.gen(function*() {
      const journal = { ...Journal.noop, append: () => dies }
      const { lines, seen } = yield* logged(Effect.gen(function*() {
        const { process } = yield* Harness.open({ t: { class: "SerialMut", handler: fine } }, { journal })
        const { toolMessages } = yield* process.executeWave(Harness.calls("t", "t"))
        yield* Effect.sleep("1 hour")
        return toolMessages
      }))
      const told = lines.filter(({ cause }) => cause.includes("the secret reason"))
      assert.deepStrictEqual(told.map(({ annotations, level }) => [level, annotations]), [
        ["Warn", { "tool_executor.principal": "ada" }]
      ])
      assert.include(told[0]?.cause, "theBrokenPart")
      assert.notInclude(seen, "secret reason")
    }))

  it.effect("has what a handler fails of only for those who want to know", () =>
    Effect.gen(function*() {
      const program = wave(() => Effect.fail("not found"))
      const { lines } = yield* logged(Effect.provideService(program, References.MinimumLogLevel, "Debug"))
      assert.deepStrictEqual(lines.filter(({ cause }) => cause.includes("not found")).map(({ level }) => level), [
        "Debug"
      ])
      assert.deepStrictEqual((yield* logged(program)).lines, [])
    }))

  it.effect("once while it is away, for all callers, and a minute later as a number", () =>
    Effect.gen(function*() {
      const away = { value: true }
      const shared = store({
        reserve: (requests, now) => away.value ? dies : StateStore.makeMemory().reserve(requests, now)
      })
      const wrote = Journal.layerMemory()
      const messages: Array<unknown> = []
      const logger = Logger.make(({ message }) => {
        messages.push(...(Array.isArray(message) ? message.slice(0, 1) : [message]))
      })
      const program = Effect.gen(function*() {
        const context = yield* Layer.build(wrote)
        const memory = yield* Effect.provideContext(Journal.Journal, context)
        const error = new Journal.JournalError({ operation: "append", cause: new Error("away") })
        const journal = {
          ...memory,
          append: (lines, options) => away.value ? Effect.fail(error) : memory.append(lines, options)
        } satisfies Journal.Journal["Service"]
        const options = { rules: limited, store: shared, journal }
        const executors = [
          yield* Harness.open({ t: fine }, options),
          yield* Harness.open({ t: fine }, options),
          yield* Harness.open({ t: fine }, options)
        ]
        const round = Effect.forEach(executors, ({ process }) => process.executeWave(Harness.calls("t", "t", "t")))
        yield* round
        yield* round
        yield* Effect.sleep("61 seconds")
        yield* round
        away.value = false
        yield* Effect.sleep("10 seconds")
      })
      yield* VirtualTime.run(Effect.scoped(program), { limit: "1 day" }).pipe(Effect.provide(Logger.layer([logger])))
      assert.deepStrictEqual(messages.filter((it) => String(it).includes("reserve")), [
        "StateStore.reserve failed",
        "StateStore.reserve failed; so did 5 more since this was last said"
      ])
      assert.deepStrictEqual(messages.filter((it) => String(it).includes("journal")), [
        "The journal cannot be written; calls that may change things are refused until it can",
        "The journal can be written again; 2 more warnings were suppressed"
      ])
    }), { tags: ["ST13"] })
})
