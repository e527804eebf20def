/** What clients see of events: safe, once, in one case, and there whatever a tool reports. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HashMap from "effect/HashMap"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ToolContext, ToolEvent, type ToolOutcome, type ToolRefusal } from "../../../src/index.ts"
import { calls, run, type ToolSpec } from "../../support/Harness.ts"

const secret = "postgres://admin:hunter2@db"

const wave = { agentPath: ["helper"], batch: "b", process: "p", wave: 1, sequence: 1, at: 0 }

const common = { callId: "1", tool: "t", index: 0, attempt: 1, queuedAt: 0, startedAt: 1, duration: 2, commits: 0 }

const ofCall = { ...wave, callId: "1", tool: "t", index: 0 }

const complete = (outcome: ToolOutcome.ToolOutcome): ToolEvent.ToolEvent => ({
  ...ofCall,
  _tag: "ToolCallComplete",
  outcome,
  dropped: 0
})

const failed = (error: unknown, origin: "handler" | "result" | "defect" = "handler"): ToolOutcome.ToolOutcome => ({
  ...common,
  _tag: "Failed",
  error,
  origin,
  retryable: true,
  modelText: "it failed",
  requestsContinuation: false,
  hasContinueRule: false
})

/** The event, as a client has it that has decoded what came over the wire. */
const received = (event: ToolEvent.ToolEvent): ToolEvent.Wire =>
  Schema.decodeSync(Schema.fromJsonString(ToolEvent.Wire))(JSON.stringify(ToolEvent.toWire(event)))

const eventsOf = (handler: ToolSpec["handler"]) =>
  run(
    { t: handler },
    {},
    ({ process }) => Effect.map(Stream.runCollect(process.stream(calls("t"))), (events) => Array.from(events))
  )

const wireOf = (events: ReadonlyArray<ToolEvent.ToolEvent>): string =>
  JSON.stringify(events.map((event) => received(event)))

const deep = (): unknown => {
  let value: unknown = 1
  for (let level = 0; level < 100_000; level++) value = { in: value }
  return value
}

/** 40 levels, and a trillion ways through them. */
const wide = (): unknown => {
  let value: unknown = "leaf"
  for (let level = 0; level < 40; level++) value = [value, value]
  return value
}

const loop = (): unknown => {
  const value: { self?: unknown } = {}
  value.self = value
  return value
}

const revoked = (): unknown => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

const values: ReadonlyArray<readonly [what: string, value: unknown]> = [
  ["nothing", undefined],
  ["a bigint", 1n],
  ["a function", () => 1],
  ["a symbol", Symbol("s")],
  ["no number", NaN],
  ["a date", new Date(0)],
  ["no date", new Date(NaN)],
  ["a map with a map as a key", new Map([[new Map(), 1n]])],
  ["a set", new Set([1n])],
  ["a loop", loop()],
  ["a getter that throws", {
    get no() {
      throw new Error(secret)
    }
  }],
  ["a toJSON that throws", {
    toJSON: () => {
      throw new Error(secret)
    }
  }],
  ["a toJSON that gives itself", {
    toJSON() {
      return { again: this }
    }
  }],
  ["what is very deep", deep()],
  ["what is very wide", wide()],
  ["a list that is mostly holes", Object.assign([], { length: 5_000_000 })],
  ["a revoked proxy", revoked()],
  ["a proxy that traps all", new Proxy({}, { ownKeys: () => [Symbol.iterator], get: () => 1n })],
  ["lone surrogates", { "\ud800": "\udc00" }],
  ["a key of prototypes", JSON.parse("{\"__proto__\":{\"polluted\":1},\"constructor\":1}")],
  ["bytes", new Uint8Array(3)],
  ["an error of Effect", new (Data.TaggedError("Own")<{ cause: unknown }>)({ cause: new Error(secret) })],
  ["an error with a cause", new Error("it failed", { cause: new Error(secret) })],
  ["a cause", Cause.die(new Error(secret))],
  ["an exit", { exit: Exit.die(new Error(secret)) }]
]

describe("ToolEvent.Wire", () => {
  for (const [what, value] of values) {
    it(`has a place for ${what}, wherever a tool gives it`, () => {
      const text = value as string
      const number = value as number
      for (
        const event of [
          { ...ofCall, _tag: "ToolPartialResult", value },
          { ...ofCall, _tag: "ToolOptions", options: value },
          { ...ofCall, _tag: "ToolCustom", type: "own", data: value },
          { ...ofCall, _tag: "ToolStatus", status: text },
          { ...ofCall, _tag: "ToolProgress", progress: number, total: number, message: text },
          { ...ofCall, _tag: "ToolLog", level: value as "info", message: text, data: value },
          { ...ofCall, _tag: "ToolCallQueued", params: value },
          { ...ofCall, _tag: "ToolCallStart", attempt: 1, limitMillis: Infinity },
          { ...ofCall, _tag: "ToolApprovalRequested", requestId: "r", why: text, diff: text },
          complete({ ...common, _tag: "Denied", reason: { _tag: "GuardRejected", guard: "g", reason: text } }),
          complete({ ...common, _tag: "Cancelled", started: true, reason: text }),
          complete(failed(value)),
          complete({
            ...common,
            _tag: "Succeeded",
            output: { _tag: "Inline", value, modelText: "text" },
            requestsContinuation: false,
            hasContinueRule: false
          })
        ] satisfies ReadonlyArray<ToolEvent.ToolEvent>
      ) {
        const json = JSON.stringify(received(event))
        assert.notInclude(json, "hunter2")
        assert.isBelow(json.length, 20_000_000)
      }
    })
  }

  it("keeps values of tools and models as they are, with their own keys", () => {
    const value = { someKey: [{ otherKey: 1 }], cause: "rain", stack: ["a"], message: "hello" }
    assert.deepInclude(received({ ...ofCall, _tag: "ToolPartialResult", value }), { value })
    assert.deepInclude(received({ ...ofCall, _tag: "ToolCallQueued", params: value }), { params: value })
    assert.deepInclude(received({ ...ofCall, _tag: "ToolCustom", type: "own", data: value }), { data: value })
  })

  it("says which wave of which process of whose agent it is about", () => {
    assert.deepInclude(received({ ...ofCall, _tag: "ToolStatus", status: "on" }), {
      agentPath: ["helper"],
      batch: "b",
      process: "p",
      wave: 1,
      sequence: 1,
      callId: "1"
    })
  })

  it.prop("has every event in camel case at every depth, and loses none", [ToolEvent.ToolEvent], ([event]) => {
    const users = ["params", "value", "options", "data", "error"]
    const check = (value: unknown): void => {
      if (Array.isArray(value)) return value.forEach(check)
      if (typeof value !== "object" || value === null) return
      for (const [key, it] of Object.entries(value)) {
        assert.match(key, /^(_tag|[a-z][A-Za-z]*)$/)
        if (!users.includes(key)) check(it)
      }
    }
    check(received(event))
  }, { tags: ["E6"], arbitrary: { runs: 500 } })

  it("has a refusal as it is, and of a rule nothing that the host fills in", () => {
    const rule = {
      _tag: "ChildTools",
      tool: "a",
      children: ["b"],
      prefilled: { b: { token: "hunter2" } }
    } as const
    const reason: ToolRefusal.ToolRefusal = { _tag: "RuleViolation", rule, sentence: "first a", remainingMillis: 5 }
    const event = received(complete({ ...common, _tag: "Denied", reason }))
    assert.deepInclude(event, { dropped: 0 })
    assert.deepInclude((event as Extract<ToolEvent.Wire, { readonly _tag: "ToolCallComplete" }>).outcome, {
      reason: {
        _tag: "RuleViolation",
        rule: { _tag: "ChildTools", tool: "a" },
        sentence: "first a",
        remainingMillis: 5
      }
    })
    const denied = received(complete({ ...common, _tag: "Denied", reason: { _tag: "PolicyDenied", rule: "t(x)" } }))
    assert.deepInclude((denied as Extract<ToolEvent.Wire, { readonly _tag: "ToolCallComplete" }>).outcome, {
      reason: { _tag: "PolicyDenied", rule: "t(x)" }
    })
  })
})

describe("what clients see of a call", () => {
  it.effect("has its output once, in its completion", () =>
    Effect.gen(function*() {
      const events = yield* eventsOf(() => Effect.succeed({ answer: "forty-two" }))
      const texts = events.map((event) => JSON.stringify(ToolEvent.toWire(event)))
      const having = events.flatMap(({ _tag }, at) => Array(texts[at]!.split("forty-two").length - 1).fill(_tag))
      // the second is the text that the model gets
      assert.deepStrictEqual(having, ["ToolCallComplete", "ToolsEnd"])
      const end = received(events.at(-1)!) as Extract<ToolEvent.Wire, { readonly _tag: "ToolsEnd" }>
      assert.deepStrictEqual(end.toolMessages, [
        { callId: "1", tool: "t", text: "{\"answer\":\"forty-two\"}", isError: false }
      ])
      assert.deepInclude(end.executionResults[0]!, { _tag: "Succeeded", callId: "1", hasContinueRule: false })
      assert.notProperty(end.executionResults[0]!, "output")
    }), { tags: ["E6"] })

  it.effect("has nothing of a defect, which the host finds in its log", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ cause, logLevel, message }) => {
      logged.push(`${logLevel} ${String(message)} ${Cause.pretty(cause)}`)
    })
    return Effect.gen(function*() {
      const events = yield* eventsOf(() => Effect.die(new Error(`connect ${secret}`)))
      assert.notInclude(wireOf(events), "hunter2")
      assert.notInclude(wireOf(events), ".test.ts")
      assert.lengthOf(logged, 1)
      assert.match(logged[0]!, /^Warn "t" failed[^]*connect [^]*ToolEvent\.test\.ts/)
      // a password is for nobody
      assert.notInclude(logged[0]!, "hunter2")
    }).pipe(Effect.provide(Logger.layer([logger])))
  }, { tags: ["O3"] })

  it.effect("has the failure that a tool declares, without what caused it", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ cause, logLevel }) => {
      logged.push(`${logLevel} ${Cause.pretty(cause)}`)
    })
    return Effect.gen(function*() {
      const failure = { _tag: "SaveFailed", message: "not saved", cause: { message: secret, stack: "at /srv/db.ts" } }
      const events = yield* eventsOf(() => Effect.fail(failure))
      assert.notInclude(wireOf(events), "hunter2")
      assert.notInclude(wireOf(events), "/srv")
      assert.include(wireOf(events), "not saved")
      // the host has all of it
      const outcome = events.flatMap((event) => event._tag === "ToolCallComplete" ? [event.outcome] : [])[0]
      assert.deepInclude(outcome, { error: failure })
      assert.lengthOf(logged, 1)
      assert.match(logged[0]!, /^Debug /)
    }).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(References.MinimumLogLevel, "Debug")
    )
  })

  it.effect("has no cause of a failure or a report, whatever it is in", () =>
    Effect.gen(function*() {
      class SaveFailed extends Schema.TaggedError<SaveFailed>("SaveFailed")("SaveFailed", {
        file: Schema.String,
        cause: Schema.Defect()
      }) {}
      const error = new SaveFailed({ file: "a.txt", cause: new Error(secret) })
      const cause = Cause.die(new Error(secret))
      const held: ReadonlyArray<unknown> = [
        error,
        Option.some(cause),
        Result.fail(cause),
        Result.fail(error),
        Chunk.make(cause),
        HashMap.make(["a", cause]),
        Exit.succeed(cause),
        cause.reasons,
        new Map([["a", Exit.die(secret)]]),
        { toJSON: () => JSON.parse(JSON.stringify(cause)) as unknown }
      ]
      for (const value of held) {
        const reports = Effect.flatMap(ToolContext.ToolContext, (it) =>
          Effect.all([it.partial(value), it.log("error", "not saved", value), it.emit("own", value)]))
        const events = yield* eventsOf(() =>
          Effect.andThen(reports, Effect.fail(value))
        )
        const wire = wireOf(events.filter((it) => it._tag !== "ToolCallComplete" && it._tag !== "ToolsEnd"))
        assert.notInclude(wire, "hunter2")
      }
      for (const value of held.slice(0, 7)) {
        assert.notInclude(wireOf(yield* eventsOf(() => Effect.fail(value))), "hunter2")
      }
    }))

  it.effect("goes on when a tool reports what is no JSON", () =>
    Effect.gen(function*() {
      const events = yield* eventsOf(() =>
        Effect.flatMap(ToolContext.ToolContext, (it) =>
          Effect.andThen(
            Effect.forEach(values, ([, value]) =>
              Effect.all([it.partial(value), it.emit("own", value), it.status(value as string)])),
            Effect.succeed("done")
          ))
      )
      const received = events.map((event) =>
        JSON.parse(JSON.stringify(ToolEvent.toWire(event))) as ToolEvent.Wire
      )
      assert.strictEqual(received.at(-1)?._tag, "ToolsEnd")
      assert.lengthOf(received.filter((it) => it._tag === "ToolPartialResult"), values.length)
      assert.deepStrictEqual(received.map((it) => it.sequence), received.map((_, n) => n + 1))
    }))
})
