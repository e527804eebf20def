/** No secret of a call is on record, or in what an operator sees of it, wherever it turns up. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as References from "effect/References"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as ToolEvent from "../../../../src/core/facts/ToolEvent.ts"
import { Approvals, Journal, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, type ToolSpec } from "../../../support/Harness.ts"

/** Secrets of several kinds; the n-th of each is another. */
const kinds: ReadonlyArray<(n: number) => string> = [
  (n) => `sk-live-${n}-9fA3kQ7zPq`,
  (n) => `hunter2 and ${n} words "quoted"`,
  (n) => `päss\\wörd\n${n}`,
  (n) => `${4_000_000_000_000_000 + n}`
]

/** Where a secret stands in the arguments: under a usual name, deep, in a list, or where the tool says that one is. */
const places: ReadonlyArray<(secret: string) => Record<string, unknown>> = [
  (password) => ({ password }),
  (apiKey) => ({ options: { auth: { apiKey } } }),
  (token) => ({ all: [{ n: 1, token }] }),
  (secret) => ({ note: { body: secret } }),
  (secret) => ({ headers: { Authorization: `Bearer ${secret}` } })
]

const secretIn = (params: { readonly [key: string]: unknown }): string => String(params.plain)

/** Handlers that repeat what they were given, each in its own way. */
const behaviours: Record<string, ToolSpec["handler"]> = {
  echoes: (params) => Effect.succeed({ said: `it was ${secretIn(params)}`, list: [secretIn(params)] }),
  shows: (params) => Effect.succeed(`Bearer ${secretIn(params)}`),
  fails: (params) => Effect.fail({ message: `wrong: ${secretIn(params)}` }),
  dies: (params) => Effect.die(new Error(`no ${secretIn(params)}`)),
  reports: (params) =>
    Effect.flatMap(
      ToolContext.ToolContext,
      ({ progress }) => Effect.andThen(progress({ message: `with ${secretIn(params)}` }), Effect.succeed("done"))
    ),
  writes: () => Effect.succeed("written")
}

/** What a person is shown of a write. */
const preview = (params: unknown) => {
  const after = `key=${secretIn(params as Record<string, unknown>)}`
  return Effect.succeed([{ path: "config", before: "", after }])
}

/** Runs calls with 200 secrets, and has people say no to some who repeat them; gives the secrets. */
const calls = Effect.fnUntraced(function*(options: Options, events?: Array<ToolEvent.ToolEvent>) {
  const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
  const specs = Object.fromEntries(
    Object.entries(behaviours).map(([name, handler]): [string, ToolSpec] => [name, {
      class: "SerialMut",
      handler,
      annotate: (tool) =>
        tool.annotate(ToolAnnotations.Redact, ["plain", "note.body"])
          .annotate(ToolAnnotations.Preview, name === "writes" ? preview : undefined)
    }])
  )
  const { process } = yield* open(specs, {
    approvals,
    dedupe: false,
    policy: { default: "allow", ask: ["shows", "writes"] },
    ...options
  })
  if (events !== undefined) {
    const observing = Stream.runForEach(process.events, (it) => Effect.sync(() => events.push(it)))
    yield* Effect.forkScoped(observing, { startImmediately: true })
  }
  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    yield* Effect.sleep(1)
    for (const { args, id } of yield* approvals.list) {
      const reason = `no, ${secretIn(args as Record<string, unknown>)} is secret`
      yield* approvals.answer(id, { _tag: "Deny", reason })
    }
  })))
  const names = Object.keys(behaviours)
  const secrets: Array<string> = []
  for (let n = 0; n < 200; n++) {
    const secret = kinds[n % kinds.length]!(n)
    secrets.push(secret)
    const params = { ...places[n % places.length]!(secret), plain: secret }
    yield* process.executeWave([call(`${n}`, names[n % names.length]!, params), call(`${n}x`, "none", params)])
  }
  yield* Effect.sleep("1 second")
  return secrets
})

/** Fails where a line has one of the secrets, in whatever form. */
const assertNone = (lines: ReadonlyArray<string>, secrets: ReadonlyArray<string>): void => {
  const text = lines.join("\n")
  for (const secret of secrets) {
    for (const form of [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]) {
      assert.isFalse(text.includes(form), `${form} in ${lines.find((line) => line.includes(form))}`)
    }
  }
}

describe("what observers see of a call", () => {
  it.effect("has no secret that its tool declares, whatever repeats it", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const events: Array<ToolEvent.ToolEvent> = []
        const secrets = yield* calls({}, events)
        // nobody knows what is secret for a tool that there is not
        const known = events.filter((it) => ToolEvent.isEnd(it) || it.tool !== "none")
        const tags = new Set(known.map((it) => it._tag))
        for (const it of ["ToolCallQueued", "ToolApprovalRequested", "ToolProgress", "ToolCallComplete"] as const) {
          assert.isTrue(tags.has(it), it)
        }
        assertNone(known.map((it) => JSON.stringify(it)), secrets)
        assertNone(known.map((it) => JSON.stringify(ToolEvent.toWire(it))), secrets)
      })),
      { limit: "1 day" }
    ), { tags: ["E7"] })
})

describe("what is on record of a call", () => {
  it.effect("has no secret of it, wherever that stands and whatever repeats it", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const journal = Context.get(yield* Layer.build(Journal.layerMemory({ maxEntries: 100_000 })), Journal.Journal)
        const secrets = yield* calls({ journal })
        const entries = (yield* Stream.runCollect(journal.read({}))).map(({ entry }) => entry)
        const tags = new Set(entries.map((it) => it._tag))
        for (const it of ["Arrived", "Decided", "Asked", "Answered", "Started", "Settled"] as const) {
          assert.isTrue(tags.has(it), it)
        }
        assertNone(entries.map((it) => JSON.stringify(it)), secrets)
      })),
      { limit: "1 day" }
    ), { tags: ["J10"] })
})

describe("what an operator sees of a call", () => {
  it.effect(
    "has no secret of it, in spans with arguments and results, in metrics and in the log of what failed",
    () =>
      Effect.gen(function*() {
        const lines: Array<string> = []
        const spans: Array<Tracer.NativeSpan> = []
        const tracer = Tracer.make({
          span: (options) => {
            const span = new Tracer.NativeSpan(options)
            spans.push(span)
            return span
          }
        })
        const logger = Logger.make(({ cause, fiber, message }) => {
          const annotations = JSON.stringify(fiber.getRef(References.CurrentLogAnnotations))
          lines.push([JSON.stringify(message), Cause.pretty(cause), annotations].join("\n"))
        })
        const registry: Metric.MetricRegistry = new Map()
        const secrets = yield* VirtualTime.run(Effect.scoped(calls({ telemetryContent: true })), { limit: "1 day" })
          .pipe(
            Effect.provideService(Tracer.Tracer, tracer),
            Effect.provideService(Metric.MetricRegistry, registry),
            Effect.provideService(References.MinimumLogLevel, "All"),
            Effect.provide(Logger.layer([logger, Logger.tracerLogger]))
          )
        const told = spans.flatMap(({ attributes, events, name, status }) => [
          ...Array.from(attributes, ([key, value]) => `${name} ${key}: ${String(value)}`),
          ...events.map(([event, , more]) => `${name} ${event} ${JSON.stringify(more)}`),
          status._tag === "Ended" && status.exit._tag === "Failure" ? Cause.pretty(status.exit.cause) : status._tag
        ])
        for (const it of ["gen_ai.tool.call.arguments: {", "gen_ai.tool.call.result: {\"said\""]) {
          assert.isTrue(told.some((line) => line.includes(it)), it)
        }
        assert.isTrue(
          lines.some((line) => line.includes("failed") && line.includes("Secrets.test.ts")),
          "stacks are there"
        )
        assertNone([...told, ...lines, ...registry.keys()], secrets)
      }),
    { tags: ["TE4"] }
  )
})
