/** Every attempt of a call that is retried appears wherever calls are watched. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { Journal, ToolAnnotations, type ToolEvent } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type ToolSpec } from "../../../support/Harness.ts"

/** A tool that fails twice, waits a second after each failure, and then succeeds. */
const flaky = (mutates: boolean): ToolSpec => {
  let runs = 0
  return {
    class: mutates ? "SerialMut" : "ReadOnly",
    handler: () => Effect.suspend(() => ++runs < 3 ? Effect.fail(`failure ${runs}`) : Effect.succeed(runs)),
    annotate: (tool) =>
      tool.annotate(Tool.Idempotent, true)
        .annotate(ToolAnnotations.Retry, Schedule.upTo(Schedule.spaced("1 second"), { times: 5 }))
  }
}

const attempts = [1, 2, 3]

describe("each attempt of a retried call", () => {
  for (const mutates of [false, true]) {
    it.effect(`is in events, listeners, journal, spans and metrics of a tool that ${mutates ? "writes" : "reads"}`, () =>
      Effect.gen(function*() {
        const spans: Array<Tracer.NativeSpan> = []
        const tracer = Tracer.make({
          span: (options) => {
            const span = new Tracer.NativeSpan(options)
            spans.push(span)
            return span
          }
        })
        const registry: Metric.MetricRegistry = new Map()
        const program = Effect.gen(function*() {
          const journal = Context.get(yield* Layer.build(Journal.layerMemory()), Journal.Journal)
          const { process } = yield* open({ t: flaky(mutates) }, { journal })
          const heard: Array<ToolEvent.ToolEvent> = []
          yield* process.listen((event) => heard.push(event) > 0)
          const events = yield* Stream.runCollect(process.stream([call("1", "t", {})]))
          yield* Effect.sleep(1)
          const entries = yield* Stream.runCollect(journal.read({}))
          return { entries: entries.map((it) => it.entry), events: Array.from(events), heard }
        })
        const { entries, events, heard } = yield* VirtualTime.run(Effect.scoped(program)).pipe(
          Effect.provideService(Tracer.Tracer, tracer),
          Effect.provideService(Metric.MetricRegistry, registry)
        )
        for (const [where, all] of [["events", events], ["listeners", heard]] as const) {
          const starts = all.flatMap((it) => it._tag === "ToolCallStart" ? [it] : [])
          assert.deepStrictEqual(starts.map((it) => it.attempt), attempts, where)
          const [first] = starts
          assert.deepStrictEqual(starts.map((it) => it.at - first!.at), [0, 1_000, 2_000], where)
          assert.isTrue(starts.every((it) => it.limitMillis === first!.limitMillis), where)
          assert.deepStrictEqual(all.map((it) => it.sequence), all.map((_, index) => index + 1), where)
        }
        const started = entries.flatMap((it) => it._tag === "Started" ? [it] : [])
        assert.deepStrictEqual(started.map((it) => it.attempt), attempts)
        assert.strictEqual(new Set(started.map((it) => it.idempotencyKey)).size, 1)
        const runs = spans.filter((it) => it.name === "execute_tool t")
        assert.deepStrictEqual(runs.map((it) => it.attributes.get("tool_executor.attempt")), attempts)
        assert.deepStrictEqual(runs.map((it) => it.attributes.get("error.type")), ["Failed", "Failed", undefined])
        assert.isTrue(runs.every((it) => it.status._tag === "Ended"))
        const figures = yield* Effect.provideService(Metric.snapshot, Metric.MetricRegistry, registry)
        const count = figures.find((it) => it.id === "tool_executor.attempt")?.state
        assert.deepStrictEqual(count && "count" in count ? Number(count.count) : undefined, attempts.length)
      }))
  }
})
