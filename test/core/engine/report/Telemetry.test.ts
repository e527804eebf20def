/** Spans, metrics and events of calls, as a caller's own tracer, registry and logger get them. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { Gate, Journal, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

/** A span, in words. */
interface Seen {
  readonly name: string
  readonly attributes: { readonly [key: string]: unknown }
  readonly status: string
  /** Seconds. */
  readonly took: number | undefined
  readonly events: ReadonlyArray<string>
  readonly links: ReadonlyArray<string>
  readonly children: ReadonlyArray<Seen>
}

/** Keeps all spans that are made. */
const recorder = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const seen = (span: Tracer.NativeSpan): Seen => ({
    name: span.name,
    attributes: Object.fromEntries(span.attributes),
    status: span.status._tag === "Started"
      ? "open"
      : span.status.exit._tag === "Success"
      ? "ok"
      : JSON.stringify(span.status.exit.cause),
    took: span.status._tag === "Ended" ? Number(span.status.endTime - span.status.startTime) / 1e9 : undefined,
    events: span.events.map(([name]) => name),
    links: span.links.map((it) => it.span.spanId),
    children: spans.filter((it) => Option.getOrUndefined(it.parent) === span).map(seen)
  })
  return {
    tracer,
    all: spans,
    roots: () => spans.filter((it) => Option.isNone(it.parent)).map(seen),
    named: (name: string) => spans.filter((it) => it.name === name).map(seen)
  }
}

/** Everything that metrics have, one line each. */
const figures = (registry: Metric.MetricRegistry) =>
  Effect.map(
    Metric.snapshot.pipe(Effect.provideService(Metric.MetricRegistry, registry)),
    (all): { readonly [line: string]: unknown } =>
      Object.fromEntries(all.map(({ attributes, id, state }) => {
        const labels = Object.entries(attributes ?? {}).filter(([name]) => name !== "unit")
        const value = "count" in state && "sum" in state
          ? `${state.count} in ${state.sum}`
          : "count" in state
          ? state.count
          : "value" in state
          ? state.value
          : state
        return [[id, ...labels.map(([name, value]) => `${name}=${value}`).sort()].join(" "), value]
      }))
  )

const observed = <A, E>(program: Effect.Effect<A, E, Scope.Scope>) =>
  Effect.gen(function*() {
    const { all, named, roots, tracer } = recorder()
    const registry: Metric.MetricRegistry = new Map()
    const value = yield* VirtualTime.run(Effect.scoped(program), { limit: "1 day" }).pipe(
      Effect.provideService(Tracer.Tracer, tracer),
      Effect.provideService(Metric.MetricRegistry, registry),
      Effect.provide(Logger.layer([Logger.tracerLogger]))
    )
    return { value, all, named, roots, figures: yield* figures(registry) }
  })

const tree = ({ children, name }: Seen): unknown => children.length === 0 ? name : { [name]: children.map(tree) }

const hasSpan = Effect.map(Effect.option(Effect.currentSpan), Option.isSome)

const sleeper: Harness.Handler = ({ sleep = 1_000 }) => Effect.sleep(Number(sleep))

describe("the spans of a wave", () => {
  it.effect(
    "are the wave's, one of each call, one of each attempt, and what the handler makes is in that",
    () =>
      Effect.gen(function*() {
        const { roots } = yield* observed(Effect.gen(function*() {
          const handler: Harness.Handler = () => Effect.withSpan(Effect.sleep("2 seconds"), "own")
          const { process } = yield* Harness.open({ t: handler })
          yield* Effect.withSpan(process.executeWave(Harness.calls("t", "t")), "caller")
        }))
        assert.deepStrictEqual(roots().map(tree), [{
          caller: [{
            "tool_executor.wave": [
              { "tool_call t": [{ "execute_tool t": ["own"] }] },
              { "tool_call t": [{ "execute_tool t": ["own"] }] }
            ]
          }]
        }])
      }),
    { tags: ["TE2"] }
  )

  it.effect("say what OpenTelemetry's conventions ask for, and what became of the call", () =>
    Effect.gen(function*() {
      const { named, roots } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({ t: sleeper })
        yield* process.executeWave([Harness.call("call-1", "t", { sleep: 1_500 })])
      }))
      const attempt = named("execute_tool t")[0]!
      assert.deepStrictEqual(attempt.attributes, {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "t",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.type": "function",
        "tool_executor.attempt": 1,
        "tool_executor.limit": 120
      })
      assert.deepStrictEqual([attempt.status, attempt.took], ["ok", 1.5])
      const [call] = named("tool_call t")
      assert.deepStrictEqual(call?.attributes, {
        "gen_ai.tool.name": "t",
        "gen_ai.tool.call.id": "call-1",
        "tool_executor.queue.duration": 0,
        "tool_executor.outcome": "Succeeded"
      })
      const [wave] = roots()
      const { "tool_executor.batch": batch, "tool_executor.process": process, ...rest } = wave!.attributes
      assert.deepStrictEqual([typeof batch, typeof process], ["string", "string"])
      assert.deepStrictEqual(rest, {
        "tool_executor.principal": "default",
        "tool_executor.wave": 1,
        "tool_executor.calls": 1
      })
      assert.deepStrictEqual([wave?.status, wave?.took], ["ok", 1.5])
    }))

  it.effect("say why a call has not succeeded, and nothing of what it was given or failed of", () =>
    Effect.gen(function*() {
      const { all, named } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({
          fails: () => Effect.fail("the secret"),
          dies: () => Effect.die(new Error("the secret")),
          slow: sleeper,
          limited: sleeper
        }, { executionTimeout: "1 second", policy: { default: "allow", deny: ["limited"] } })
        const tools = ["fails", "dies", "slow", "limited", "nope"]
        yield* process.executeWave(
          tools.map((tool) => [tool, { a: "the secret", sleep: 5_000 }] as const).map(
            ([tool, params]) => Harness.call(tool, tool, params)
          )
        )
      }))
      const errors = (name: string) => named(name).map(({ attributes, status }) => [attributes["error.type"], status])
      assert.deepStrictEqual(errors("execute_tool fails").map(([error]) => error), ["Failed"])
      assert.deepStrictEqual(errors("execute_tool slow").map(([error]) => error), ["TimedOut"])
      assert.deepStrictEqual(errors("tool_call dies").map(([error]) => error), ["Failed"])
      assert.deepStrictEqual(errors("tool_call limited").map(([error]) => error), ["PolicyDenied"])
      assert.deepStrictEqual(named("execute_tool limited"), [])
      // a model may make up any name: spans are not called by it
      assert.deepStrictEqual(errors("tool_call").map(([error]) => error), ["ToolNotFound"])
      const told = JSON.stringify(
        all.map((span) => [span.name, ...span.attributes, span.status]),
        (_, it) => typeof it === "bigint" ? Number(it) : it
      )
      assert.include(told, "\"Failed\"")
      assert.notInclude(told, "secret")
    }))

  it.effect("are one for each automatic retry", () =>
    Effect.gen(function*() {
      const { figures, named, roots } = yield* observed(Effect.gen(function*() {
        let tries = 0
        const { process } = yield* Harness.open({
          t: {
            annotate: (tool) => tool.annotate(ToolAnnotations.Retry, Schedule.spaced("1 second")),
            handler: () =>
              Effect.andThen(
                Effect.withSpan(Effect.sleep(100), "own"),
                Effect.suspend(() => ++tries < 3 ? Effect.fail("again") : Effect.succeed("done"))
              )
          }
        })
        yield* process.executeWave(Harness.calls("t"))
      }))
      assert.deepStrictEqual(
        named("execute_tool t").map(({ attributes, took }) => [
          attributes["tool_executor.attempt"],
          attributes["error.type"],
          took
        ]),
        [[1, "Failed", 0.1], [2, "Failed", 0.1], [3, undefined, 0.1]]
      )
      const attempt = { "execute_tool t": ["own"] }
      assert.deepStrictEqual(roots().map(tree), [{
        "tool_executor.wave": [{ "tool_call t": [attempt, attempt, attempt] }]
      }])
      assert.strictEqual(figures["tool_executor.attempt gen_ai.tool.name=t"], 3)
    }))

  it.effect("end with the call where its handler does not", () =>
    Effect.gen(function*() {
      const { figures, named } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({
          t: () => Effect.uninterruptible(Effect.sleep("1 minute"))
        }, { executionTimeout: "1 second" })
        yield* process.executeWave(Harness.calls("t"))
        const running = yield* figuresNow
        yield* Effect.sleep("2 minutes")
        assert.strictEqual(running["tool_executor.orphans gen_ai.tool.name=t"], 1)
      }))
      assert.deepStrictEqual(named("execute_tool t").map(({ took }) => took), [1])
      assert.strictEqual(figures["tool_executor.orphans gen_ai.tool.name=t"], 0)
    }))

  it.effect("link a call that joined another one to the attempt whose result it has", () =>
    Effect.gen(function*() {
      const { all, named } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({ t: sleeper }, { dedupe: { inFlight: "join" } })
        yield* process.executeWave([Harness.call("a", "t", { n: 1 }), Harness.call("b", "t", { n: 1 })])
      }))
      const [leader] = all.filter((it) => it.name === "execute_tool t")
      assert.deepStrictEqual(named("tool_call t").map(({ links }) => links), [[], [leader!.spanId]])
    }))

  it.effect("link a call that is resumed to its span of before", () =>
    Effect.gen(function*() {
      const { all, named } = yield* observed(Effect.gen(function*() {
        const wave = [Harness.call("a", "t", {}), Harness.call("b", "done", {})]
        const life = Effect.fnUntraced(function*(entries: ReadonlyArray<Journal.JournalEntry>) {
          const built = yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries }))))
          const journal = Context.get(built, Journal.Journal)
          const { executor } = yield* Harness.open({ t: () => Effect.never, done: () => Effect.void }, { journal })
          return { journal, process: yield* executor.process({ batch: "b" }) }
        })
        const first = yield* life([])
        yield* Effect.forkScoped(first.process.executeWave(wave))
        yield* Effect.sleep("1 second")
        const written = yield* Effect.orDie(Stream.runCollect(first.journal.read({})))
        const second = yield* life(written.map(({ entry }) => entry))
        yield* Effect.forkScoped(Effect.orDie(second.process.resume(wave)))
        yield* Effect.sleep("1 second")
      }))
      for (const name of ["tool_call t", "tool_call done"]) {
        const [before] = all.filter((it) => it.name === name)
        assert.deepStrictEqual(named(name).map(({ links }) => links), [[], [before!.spanId]], name)
      }
    }))

  it.effect("of what a store does for a wave are under the wave's, those of a gate under the call's", () =>
    Effect.gen(function*() {
      const { roots } = yield* observed(Effect.gen(function*() {
        const memory = StateStore.makeMemory()
        const spanned = <A, E>(name: string, effect: Effect.Effect<A, E>) =>
          Effect.withSpan(Effect.andThen(Effect.sleep(10), effect), name)
        const { process } = yield* Harness.open({ t: () => Effect.void }, {
          rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }],
          store: { ...memory, reserve: (...args) => spanned("reserve", Effect.suspend(() => memory.reserve(...args))) },
          swap: Gate.layer({ name: "g", admit: () => spanned("gate", Effect.void) })
        })
        yield* process.executeWave(Harness.calls("t"))
      }))
      const wave = roots().find(({ name }) => name === "tool_executor.wave")!
      assert.deepStrictEqual(tree(wave), {
        "tool_executor.wave": [{ "tool_call t": ["gate", "execute_tool t"] }, "reserve"]
      })
    }))

  it.effect("of calls that a handler makes are under its attempt", () =>
    Effect.gen(function*() {
      const { roots } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({
          inner: sleeper,
          outer: {
            annotate: (tool) => tool.annotate(ToolAnnotations.Recursive, true),
            handler: () =>
              Effect.scoped(Effect.gen(function*() {
                const { executor } = yield* ToolContext.ToolContext
                const inner = yield* Effect.orDie(executor!.process())
                return yield* inner.executeWave([Harness.call("i", "inner", {})])
              }))
          }
        })
        yield* process.executeWave(Harness.calls("outer"))
      }))
      assert.deepStrictEqual(roots().map(tree), [{
        "tool_executor.wave": [{
          "tool_call outer": [{
            "execute_tool outer": [{ "tool_executor.wave": [{ "tool_call inner": ["execute_tool inner"] }] }]
          }]
        }]
      }])
    }))

  it.effect("are not sampled where the caller's is not, and are not there where it wants none", () =>
    Effect.gen(function*() {
      const { all } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({ t: sleeper })
        const wave = process.executeWave(Harness.calls("t"))
        yield* Effect.withSpan(wave, "unsampled", { sampled: false })
        yield* Effect.withTracerEnabled(wave, false)
      }))
      assert.deepStrictEqual(all.map(({ name, sampled }) => [name, sampled]), [
        ["unsampled", false],
        ["tool_executor.wave", false],
        ["tool_call t", false],
        ["execute_tool t", false]
      ])
    }))
})

/** The metrics of the present registry. */
const figuresNow = Effect.flatMap(Metric.MetricRegistry, figures)

describe("what a call waits for", () => {
  it.effect("is told of permits and of people, each by itself", () =>
    Effect.gen(function*() {
      const { figures, named } = yield* observed(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open(
          { w: { class: "SerialMut", handler: sleeper }, t: sleeper },
          { approvals, policy: { default: "allow", ask: ["t"] } }
        )
        const wave = yield* Effect.forkChild(process.executeWave(Harness.calls(["w", { n: 1 }], ["w", { n: 2 }], "t")))
        yield* Effect.sleep("4 seconds")
        const during = yield* figuresNow
        assert.strictEqual(during["tool_executor.approvals.pending"], 1)
        assert.strictEqual(during["tool_executor.waiting"], 1)
        const [question] = yield* approvals.list
        yield* approvals.answer(question!.id, { _tag: "ApproveOnce" })
        yield* Fiber.join(wave)
      }))
      const waits = (name: string) =>
        named(name).map(({ attributes }) => [
          attributes["tool_executor.queue.duration"],
          attributes["tool_executor.approval.duration"]
        ])
      assert.deepStrictEqual(waits("tool_call w"), [[0, undefined], [1, undefined]])
      assert.deepStrictEqual(waits("tool_call t"), [[2, 2]])
      const [asked] = named("tool_call t")
      assert.deepStrictEqual(asked?.events, [
        "Approval requested for \"t\"",
        "The approval request for \"t\" was answered: ApproveOnce"
      ])
      assert.strictEqual(figures["tool_executor.approvals.pending"], 0)
      assert.strictEqual(figures["tool_executor.queue.duration gen_ai.tool.name=t"], "1 in 2")
    }))

  it.effect("is not told as answered where a call is suspended with its request", () =>
    Effect.gen(function*() {
      const { named } = yield* observed(Effect.gen(function*() {
        const submit = () => Effect.succeed({ _tag: "Suspended", reason: "the server stops" } as const)
        const approvals = { ...(yield* Approvals.make()), submit }
        const { process } = yield* Harness.open({ t: sleeper }, { approvals, policy: { default: "ask" } })
        yield* process.executeWave(Harness.calls("t"))
      }))
      assert.deepStrictEqual(named("tool_call t")[0]?.events, [
        "Approval requested for \"t\"",
        "The approval request for \"t\" stays open: its call resumes later"
      ])
    }))

  it.effect("is in the log with the call's span, and what comes too late is, too", () =>
    Effect.gen(function*() {
      const lines: Array<readonly [event: unknown, span: string | undefined]> = []
      const logger = Logger.make(({ fiber }) => {
        const { "event.name": event } = fiber.getRef(References.CurrentLogAnnotations)
        const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
        if (event !== undefined) lines.push([event, span?._tag === "Span" ? span.name : undefined])
      })
      yield* observed(
        Effect.gen(function*() {
          const { process } = yield* Harness.open({
            t: () =>
              Effect.flatMap(ToolContext.ToolContext, ({ progress }) =>
                Effect.onInterrupt(Effect.never, () =>
                  Effect.andThen(Effect.sleep(10), progress({ progress: 1 }))))
          }, { executionTimeout: "1 second" })
          yield* process.executeWave(Harness.calls("t"))
          yield* Effect.sleep("1 minute")
        }).pipe(Effect.provide(Logger.layer([logger])))
      )
      assert.deepStrictEqual(lines, [["tool_executor.late_write", "tool_call t"]])
    }))
})

describe("metrics", () => {
  it.effect("count what became of calls, how long they took, and what is under way", () =>
    Effect.gen(function*() {
      const { figures } = yield* observed(Effect.gen(function*() {
        const { process } = yield* Harness.open({
          t: sleeper,
          fails: () => Effect.fail("no")
        }, { rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }], pools: { read: 1 } })
        const wave = yield* Effect.forkChild(process.executeWave(Harness.calls("t", "t", "t", "fails", "nope")))
        yield* Effect.sleep("500 millis")
        const during = yield* figuresNow
        assert.strictEqual(during["tool_executor.active gen_ai.tool.name=t"], 1)
        assert.strictEqual(during["tool_executor.waiting"], 2)
        yield* Fiber.join(wave)
      }))
      const { length } = Object.keys(figures).filter((it) => it.startsWith("tool_executor.store.duration "))
      assert.isAbove(length, 0)
      const others = Object.entries(figures).filter(([it]) => !it.startsWith("tool_executor.store.duration "))
      assert.deepStrictEqual(Object.fromEntries(others), {
        "gen_ai.execute_tool.duration gen_ai.tool.name=t gen_ai.tool.type=function": "2 in 2",
        "gen_ai.execute_tool.duration error.type=Failed gen_ai.tool.name=fails gen_ai.tool.type=function": "1 in 0",
        "tool_executor.active gen_ai.tool.name=fails": 0,
        "tool_executor.active gen_ai.tool.name=t": 0,
        "tool_executor.attempt gen_ai.tool.name=fails": 1,
        "tool_executor.attempt gen_ai.tool.name=t": 2,
        "tool_executor.outcome error.type=Failed gen_ai.tool.name=fails tool_executor.outcome=Failed": 1,
        "tool_executor.outcome error.type=RuleViolation gen_ai.tool.name=t tool_executor.outcome=Denied": 1,
        "tool_executor.outcome error.type=ToolNotFound gen_ai.tool.name=_OTHER tool_executor.outcome=Denied": 1,
        "tool_executor.outcome gen_ai.tool.name=t tool_executor.outcome=Succeeded": 2,
        "tool_executor.queue.duration gen_ai.tool.name=fails": "1 in 2",
        "tool_executor.queue.duration gen_ai.tool.name=t": "2 in 1",
        "tool_executor.waiting": 0
      })
    }))
})

describe("telemetry", () => {
  const seen = (options: Harness.Options) =>
    Effect.gen(function*() {
      let found = false
      const { process } = yield* Harness.open({
        t: () =>
          Effect.map(hasSpan, (it) => {
            found = it
          })
      }, options)
      yield* process.executeWave(Harness.calls("t"))
      return found
    })

  it.effect("is absent where the caller has no span or tracer, unless it is on", () =>
    Effect.gen(function*() {
      const run = (options: Harness.Options) => VirtualTime.run(Effect.scoped(seen(options)))
      assert.isFalse(yield* run({}))
      assert.isTrue(yield* run({ telemetry: "on" }))
    }), { tags: ["TE1"] })

  it.effect("is of metrics alone where the caller has a registry of its own and no span", () =>
    Effect.gen(function*() {
      const registry: Metric.MetricRegistry = new Map()
      const found = yield* VirtualTime.run(Effect.scoped(seen({}))).pipe(
        Effect.provideService(Metric.MetricRegistry, registry)
      )
      assert.isFalse(found)
      assert.strictEqual((yield* figures(registry))["tool_executor.attempt gen_ai.tool.name=t"], 1)
    }))

  it.effect("is nothing at all where it is off", () =>
    Effect.gen(function*() {
      const { all, figures, value } = yield* observed(seen({ telemetry: "off" }))
      assert.deepStrictEqual([all.length, figures, value], [0, {}, false])
    }), { tags: ["TE1"] })
})
