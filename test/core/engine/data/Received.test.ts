/** n in, n out, whatever comes in: what is no call is one refused call, and its siblings never notice. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { type ToolCall, type ToolOutcome } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, run, tag, type ToolSpec, value } from "../../../support/Harness.ts"
import { randomFrom } from "../../../support/randomCase.ts"
import { seeds } from "../../../support/seeds.ts"

const boom = (): never => {
  throw new Error("boom")
}

const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

const throwing = (target: object = {}) =>
  new Proxy(target, { get: boom, getOwnPropertyDescriptor: boom, getPrototypeOf: boom, has: boom, ownKeys: boom })

const circle = () => {
  const it: { self?: unknown } = {}
  it.self = it
  return it
}

/** What is no call, with the id that it has. */
const noCalls: Readonly<Record<string, readonly [item: () => unknown, id?: string]>> = {
  "null": [() => null],
  "nothing": [() => undefined],
  "a text": [() => "read"],
  "a number": [() => 1n],
  "a symbol": [() => Symbol("x")],
  "a function": [() => boom],
  "a list": [() => []],
  "a proxy that throws": [() => throwing()],
  "a proxy that is revoked": [revoked],
  "a call without an id": [() => ({ name: "t", params: {} })],
  "an id that is a number": [() => ({ id: 7, name: "t", params: {} })],
  "an id that throws": [() => ({
    get id() {
      return boom()
    },
    name: "t",
    params: {}
  })],
  "an id that is a symbol": [() => ({ id: Symbol("x"), name: "t", params: {} })],
  "a name that is null": [() => ({ id: "own", name: null, params: {} }), "own"],
  "a name that is a symbol": [() => ({ id: "own", name: Symbol("t"), params: {} }), "own"],
  "a name that is an object": [() => ({ id: "own", name: { toString: () => "t" }, params: {} }), "own"],
  "a name that throws": [() => ({
    id: "own",
    get name() {
      return boom()
    },
    params: {}
  }), "own"],
  "malformed that is true": [() => ({ id: "own", name: "t", params: null, malformed: true }), "own"],
  "malformed that is null": [() => ({ id: "own", name: "t", params: null, malformed: null }), "own"],
  "malformed without a text": [() => ({ id: "own", name: "t", params: null, malformed: { text: 1 } }), "own"],
  "malformed that throws": [() => ({ id: "own", name: "t", params: null, malformed: throwing() }), "own"],
  "params that throw": [() => ({
    id: "own",
    name: "t",
    get params() {
      return boom()
    }
  }), "own"],
  "params with a getter that throws": [() => ({
    id: "own",
    name: "t",
    params: {
      get a() {
        return boom()
      }
    }
  }), "own"],
  "params with a toJSON": [() => ({ id: "own", name: "t", params: { toJSON: boom } }), "own"],
  "params that are a proxy which throws": [() => ({ id: "own", name: "t", params: throwing() }), "own"],
  "params with a list that throws": [() => ({ id: "own", name: "t", params: { a: throwing([]) } }), "own"],
  "params with a date that is a proxy": [() => ({ id: "own", name: "t", params: new Proxy(new Date(), {}) }), "own"],
  "params with a symbol": [() => ({ id: "own", name: "t", params: { a: [Symbol("x")] } }), "own"],
  "params that go round in a circle": [() => ({ id: "own", name: "t", params: circle() }), "own"],
  "params of any number of values": [() => ({ id: "own", name: "t", params: { a: Array(2 ** 32 - 1) } }), "own"]
}

const echo: ToolSpec["handler"] = (params) => Effect.succeed(params)

const refused = (outcome: ToolOutcome.ToolOutcome | undefined) =>
  outcome !== undefined && tag(outcome) === "InvalidParameters"

const asWave = (items: unknown) => items as ReadonlyArray<ToolCall.ToolCall>

const asCall = (item: unknown) => item as ToolCall.ToolCall

describe("input that is not a call is one refused call", () => {
  for (const [what, [item, id]] of Object.entries(noCalls)) {
    it.effect(what, () =>
      run({ t: echo }, {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(asWave([call("1", "t", { n: 1 }), item(), call("2", "t", { n: 2 })]))
          assert.deepStrictEqual(wave.outcomes.map(tag), ["Succeeded", "InvalidParameters", "Succeeded"])
          assert.deepStrictEqual(wave.outcomes.map((it) => it.callId), ["1", id ?? "call_2", "2"])
          assert.deepStrictEqual(wave.toolMessages.map((it) => it.isError), [false, true, false])
          assert.isNotEmpty(wave.outcomes[1]!.tool)
          assert.isBelow(wave.toolMessages[1]!.text.length, 1_000)
        })))

    it.effect(`${what}, through every other door`, () =>
      run({ t: echo }, {}, ({ process }) =>
        Effect.gen(function*() {
          assert.isTrue(refused(yield* process.execute(asCall(item()))))
          const answer = yield* Effect.flatMap(process.step, (it) => it.execute(asCall(item())))
          assert.isTrue(refused(answer.outcome))
          const events = yield* Stream.runCollect(process.stream(asWave([item(), call("1", "t")])))
          assert.deepStrictEqual(
            events.flatMap((it) => it._tag === "ToolCallComplete" ? [tag(it.outcome)] : []).sort(),
            ["InvalidParameters", "Succeeded"]
          )
        })))
  }

  it.effect("of a wave that is none or that cannot be gone through", () =>
    run({ t: echo }, {}, ({ process }) =>
      Effect.gen(function*() {
        const waves: ReadonlyArray<readonly [unknown, ReadonlyArray<string>]> = [
          [null, ["InvalidParameters"]],
          ["wave", ["InvalidParameters"]],
          [{}, ["InvalidParameters"]],
          [throwing([]), ["InvalidParameters"]],
          [revoked(), ["InvalidParameters"]],
          [new Set([call("1", "t", { set: 1 })]), ["Succeeded"]],
          [[], []],
          [Object.assign(Array(2), { 1: call("1", "t", { sparse: 1 }) }), ["InvalidParameters", "Succeeded"]],
          [
            (function*() {
              yield call("1", "t", { generated: 1 })
              boom()
            })(),
            ["Succeeded", "InvalidParameters"]
          ],
          [
            Object.defineProperty([call("1", "t", { own: 1 }), call("2", "t")], 1, { get: boom }),
            ["Succeeded", "InvalidParameters"]
          ]
        ]
        for (const [wave, expected] of waves) {
          assert.deepStrictEqual((yield* process.executeWave(asWave(wave))).outcomes.map(tag), expected)
        }
      })))

  it.effect(
    "with an id that no other call of the wave has",
    () =>
      run({ t: echo }, {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(asWave([null, call("call_1", "t"), call("call_1_", "x"), null]))
          assert.strictEqual(new Set(wave.outcomes.map((it) => it.callId)).size, 4)
        })),
    { tags: ["A2"] }
  )

  it.effect(
    "in any mix, for any wave",
    () =>
      run({ t: echo }, { dedupe: false }, ({ process }) =>
        Effect.gen(function*() {
          const hostile = Object.values(noCalls).slice(0, -1)
          for (const seed of seeds(300)) {
            const { chance, int, pick } = randomFrom(seed)
            const items = Array.from(
              { length: int(12) },
              (_, n) =>
                chance(0.5)
                  ? { item: call(`${n}`, "t", { seed, n }), isCall: true }
                  : { item: pick(hostile)[0](), isCall: false }
            )
            const { outcomes } = yield* process.executeWave(asWave(items.map((it) => it.item)))
            assert.deepStrictEqual(
              outcomes.map(tag),
              items.map(({ isCall }) => isCall ? "Succeeded" : "InvalidParameters"),
              `seed ${seed}`
            )
            assert.deepStrictEqual(outcomes.map(({ index }) => index), items.map((_, index) => index))
          }
        })),
    { tags: ["A2"] }
  )
})

describe("a typed call", () => {
  const Save = Tool.make("save", { parameters: Schema.Struct({ at: Schema.Unknown }), success: Schema.Unknown })

  it.effect("whose parameters cannot be read fails as one that is refused", () =>
    run({ save: { handler: echo, tool: Save } }, {}, ({ process }) =>
      Effect.gen(function*() {
        for (const at of [throwing(), boom, Symbol("x")]) {
          const exit = yield* Effect.exit(process.call(Save, { at }))
          assert.isTrue(Exit.isFailure(exit))
          assert.include(JSON.stringify(exit), "InvalidParameters")
        }
        assert.deepStrictEqual(yield* process.call(Save, { at: { deep: [1, undefined, null] } }), {
          at: { deep: [1, undefined, null] }
        })
        const date = new Date(0)
        assert.deepStrictEqual(yield* process.call(Save, { at: date }), { at: date })
      })))

  it.effect("of a guarded toolkit is a result, whatever it is called with", () =>
    run({ save: { handler: echo, tool: Save } }, {}, ({ process }) =>
      Effect.gen(function*() {
        const toolkit = yield* yield* process.guard(Toolkit.make(Save))
        const handle = toolkit.handle as unknown as (
          name: unknown,
          params: unknown,
          id?: unknown
        ) => Effect.Effect<Stream.Stream<{ readonly isFailure: boolean }>>
        for (const [name, params, id] of [["save", throwing()], [null, {}], ["none", {}], ["save", {}, 7]]) {
          const results = yield* Stream.runCollect(yield* handle(name, params, id))
          assert.deepStrictEqual(results.map((it) => it.isFailure), [true])
        }
      })))
})

describe("the parts of a response", () => {
  it.effect("that cannot be read are answered as calls that are refused; what is no part is none", () =>
    run({ t: echo }, {}, ({ process }) =>
      Effect.gen(function*() {
        const good = { type: "tool-call", id: "1", name: "t", params: {}, providerExecuted: false }
        const content = [null, undefined, 7, good, throwing(), { ...good, id: 2 }] as never
        const results = yield* process.answer({ tools: {} }, content)
        assert.deepStrictEqual(results.map((it) => it.isFailure), [true, true, true])
        assert.strictEqual(results[0]!.id, "1")
      })))
})

describe("a stream whose wave cannot begin", () => {
  it.effect("ends with what is wrong", () =>
    run({ t: echo }, {}, ({ process }) =>
      Effect.gen(function*() {
        const timeout = "no duration" as never
        const exit = yield* Effect.exit(Stream.runCollect(process.stream([call("1", "t")], { timeout })))
        assert.isTrue(Exit.isFailure(exit))
      })))
})

describe("arguments of host calls", () => {
  const rules: Options = { rules: [{ _tag: "StartConstraint", tool: "a" }, { _tag: "StartConstraint", tool: "b" }] }

  it.effect("that cannot be read refuse their own call alone", () =>
    run({ a: echo, b: echo }, rules, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.startConstraints({
          get a() {
            return boom()
          },
          b: { n: 1 }
        })
        assert.deepStrictEqual(wave.outcomes.map((it) => [it.tool, tag(it)]), [["a", "InvalidParameters"], [
          "b",
          "Succeeded"
        ]])
        const none = yield* process.startConstraints(throwing() as never)
        assert.deepStrictEqual(none.outcomes.map(({ tool }) => tool), ["a"])
      })))
})

describe("cancelling", () => {
  it.effect("takes odd ids for nobody's, and odd reasons for none", () =>
    run({ t: () => Effect.sleep("1 second") }, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkChild(process.executeWave([call("1", "t"), call("2", "t", { n: 2 })]), {
          startImmediately: true
        })
        yield* Effect.sleep(10)
        for (const id of [null, undefined, Symbol("1"), throwing(), 1, { toString: () => "1" }]) {
          yield* process.cancelCall(id as never)
        }
        yield* process.cancelCall("1", Symbol("why") as never)
        const { outcomes, toolMessages } = yield* Fiber.join(wave)
        assert.deepStrictEqual(outcomes.map(tag), ["Cancelled", "Succeeded"])
        assert.include(toolMessages[0]!.text, "it was cancelled")
        yield* process.cancel(null as never)
        assert.strictEqual((yield* process.execute(call("3", "t")))._tag, "Cancelled")
      })))
})

describe("a call that changes after it was submitted", () => {
  it.effect("stays as it was submitted", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const { process } = yield* open(
        { t: echo },
        { policy: { default: "allow", ask: ["t"] }, approvals: people }
      )
      const params = { path: "docs", deep: { list: ["a"] } }
      const asked = { id: "1", name: "t", params }
      const wave = yield* Effect.forkChild(process.executeWave([asked]), { startImmediately: true })
      params.path = "secret"
      params.deep.list.push("b")
      asked.name = "other"
      yield* Effect.flatMap(people.list, ([it]) => people.answer(it!.id, { _tag: "ApproveOnce" }))
      const { outcomes } = yield* Fiber.join(wave)
      assert.deepStrictEqual(outcomes.map(value), [{ path: "docs", deep: { list: ["a"] } }])
    }))), { tags: ["A4"] })

  it.effect("keeps every key that JSON may have", () =>
    run({ t: echo }, {}, ({ process }) =>
      Effect.gen(function*() {
        const params: unknown = JSON.parse(`{"__proto__":{"a":1},"constructor":null,"":[],"toString":"x"}`)
        const [outcome] = (yield* process.executeWave([{ id: "1", name: "t", params }])).outcomes
        assert.strictEqual(JSON.stringify(value(outcome)), JSON.stringify(params))
        assert.strictEqual(Object.getPrototypeOf(value(outcome)), Object.prototype)
      })))
})
