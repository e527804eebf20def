/** Outcomes that a call gets from another one: joined or replayed. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as ArtifactStore from "../../../../src/core/output/ArtifactStore.ts"
import { call, calls, run, tags, value } from "../../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

const Text = Tool.make("t", { parameters: Schema.Struct({ a: Schema.Finite }), success: Schema.String })
  .annotate(Tool.Readonly, true)
const text = (chars: number, millis = 0) => ({
  t: { handler: () => Effect.delay(Effect.succeed("x".repeat(chars)), millis), tool: Text }
})
const same = ["t", { a: 1 }] as const

describe("a shared output", () => {
  it.effect("is cut to the limit of who is given it again", () =>
    run(
      text(50_000),
      { dedupe: { onDuplicate: "replay", readWindow: "5 minutes" } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.lengthOf(yield* process.call(Text, { a: 1 }), 50_000)
          const wave = yield* process.executeWave(calls(same))
          assert.isAtMost(wave.toolMessages[0]!.text.length, 10_000)
          assert.include(wave.toolMessages[0]!.text, "50000 characters in all")
          assert.deepInclude(wave.outcomes[0], { replayOf: "host_1" })
        })
    ))

  it.effect("is cut to the limit of who joins, and whole for a host that joins", () =>
    run(text(50_000, 100), { dedupe: { inFlight: "join" } }, ({ batch, process }) =>
      Effect.gen(function*() {
        const host = yield* Effect.forkChild(process.call(Text, { a: 1 }), { startImmediately: true })
        const wave = yield* (yield* batch.process()).executeWave(calls(same))
        assert.isAtMost(wave.toolMessages[0]!.text.length, 10_000)
        assert.lengthOf(yield* Fiber.join(host), 50_000)
      })))

  it.effect("counts in the budget of the batch that gets it", () =>
    run(
      text(9_000),
      { dedupe: { onDuplicate: "replay" }, output: { batchChars: 10_000 } },
      ({ process }) =>
        Effect.gen(function*() {
          const many = Array.from({ length: 20 }, (_, n) => call(String(n), ...same))
          yield* process.executeWave(many.slice(0, 1))
          const wave = yield* process.executeWave(many)
          assert.isAtMost(wave.toolMessages.reduce((sum, it) => sum + it.text.length, 0), 20_000)
        })
    ))

  it.effect("is not an artifact of another batch", () =>
    run(
      text(50_000, 100),
      { dedupe: { onDuplicate: "replay", inFlight: "join", scope: "principal" } },
      ({ executor, process }) =>
        Effect.gen(function*() {
          const other = yield* executor.process()
          const leader = yield* Effect.forkChild(process.executeWave(calls(same)), { startImmediately: true })
          const [joined] = (yield* other.executeWave(calls(same))).outcomes
          const [led] = (yield* Fiber.join(leader)).outcomes
          assert.strictEqual(led?._tag === "Succeeded" && led.output._tag, "Artifact")
          assert.strictEqual(joined?._tag === "Succeeded" && joined.output._tag, "Truncated")
          assert.lengthOf(value(joined) as string, 50_000)
          // what lies where this batch cannot read is read anew
          const anew = (yield* other.executeWave(calls(same))).outcomes[0]
          assert.isUndefined(anew?._tag === "Succeeded" && anew.replayOf)
          const again = (yield* process.executeWave(calls(same))).outcomes[0]
          assert.strictEqual(again?._tag === "Succeeded" && again.output._tag, "Artifact")
        })
    ), { tags: ["U3"] })
})

describe("the output budget of a batch", () => {
  it.effect("holds for outputs that are stored at the same time", () => {
    const memory = ArtifactStore.makeMemory()
    const artifacts: ArtifactStore.ArtifactStore["Service"] = {
      ...memory,
      put: (owner, payload) => Effect.delay(memory.put(owner, payload), 10)
    }
    return run(
      { t: () => Effect.succeed("x".repeat(50_000)) },
      { artifacts, output: { batchChars: 10_000 } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(...Array.from({ length: 20 }, () => "t")))
          assert.isAtMost(wave.toolMessages.reduce((sum, it) => sum + it.text.length, 0), 20_000)
          // what was held and not used is there for the next
          const next = yield* process.executeWave([call("x", "t", { x: 1 })])
          assert.isAbove(next.toolMessages[0]!.text.length, 50)
        })
    )
  })

  it.effect("has what was held for a stored output given back", () => {
    const memory = ArtifactStore.makeMemory()
    const artifacts: ArtifactStore.ArtifactStore["Service"] = {
      ...memory,
      put: (owner, payload) => Effect.delay(memory.put(owner, payload), 10)
    }
    return run(
      { t: ({ chars }) => Effect.succeed("x".repeat(Number(chars))) },
      { artifacts, mode: "sequential", output: { batchChars: 60_000 } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls(...[1, 2, 3, 4].map((n) => ["t", { chars: 12_000, n }] as const)))
          const { outcomes } = yield* process.executeWave(calls(["t", { chars: 9_000 }]))
          assert.deepInclude(outcomes[0], { _tag: "Succeeded" })
          assert.lengthOf(value(outcomes[0]) as string, 9_000)
          assert.strictEqual(outcomes[0]?._tag === "Succeeded" && outcomes[0].output._tag, "Inline")
        })
    )
  })
})

describe("a call that joined another", () => {
  const join = { dedupe: { inFlight: "join" } } as const

  it.effect("goes on by itself where the other is cancelled, or its caller interrupted", () =>
    run({ t: sleeper }, join, ({ executor, process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
        const wave = yield* process.executeWave(calls(["t", {}], ["t", {}]))
        assert.deepStrictEqual(tags(wave), ["Cancelled", "Succeeded"])

        const other = yield* executor.process()
        const leader = yield* Effect.forkChild(process.executeWave(calls(["t", { n: 1 }])), { startImmediately: true })
        yield* Effect.forkChild(Effect.delay(Fiber.interrupt(leader), 10))
        assert.deepStrictEqual(tags(yield* other.executeWave(calls(["t", { n: 1 }]))), ["Succeeded"])
      })))

  it.effect("does not outlive its own cancellation", () =>
    run({ t: sleeper }, join, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
        const wave = yield* process.executeWave(calls(["t", {}], ["t", {}]))
        assert.deepStrictEqual(tags(wave), ["Cancelled", "Cancelled"])
      })))

  it.effect("has its tool blocked with the other's, in a process of its own too", () =>
    run(
      { t: () => Effect.never },
      { ...join, tools: { t: { timeout: 100, retryOnTimeout: false } } },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const other = yield* batch.process()
          yield* Effect.forkChild(process.executeWave(calls(["t", {}])), { startImmediately: true })
          assert.deepStrictEqual(tags(yield* other.executeWave(calls(["t", {}]))), ["TimedOut"])
          assert.deepStrictEqual(tags(yield* other.executeWave(calls(["t", { b: 1 }]))), ["ToolBlocked"])
        })
    ))
})

describe("parameters that cannot be encoded back", () => {
  const tool = (encode: SchemaGetter.Getter<string, string, never>) =>
    Tool.make("t", {
      parameters: Schema.Struct({
        text: Schema.String.pipe(Schema.decodeTo(Schema.String, {
          decode: SchemaGetter.transform(() => "all the same"),
          encode
        }))
      }),
      success: Schema.Unknown
    }).annotate(Tool.Readonly, true)

  for (
    const [what, encode] of [
      ["at all", SchemaGetter.forbidden<string, string>(() => "one way")],
      ["at once", SchemaGetter.transformEffect<string, string>((it) => Effect.as(Effect.sleep(1), it))]
    ] as const
  ) {
    it.effect(`${what} are told apart by the arguments`, () =>
      run({ t: { handler: () => Effect.succeed(1), tool: tool(encode) } }, {}, ({ process }) =>
        Effect.map(
          process.executeWave(calls(["t", { text: "a" }], ["t", { text: "b" }], ["t", { text: "a" }])),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "DuplicateCall"])
        )))
  }
})
