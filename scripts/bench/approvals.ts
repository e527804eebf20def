// What waiting costs: ten thousand pending requests in memory, and answering one of many next to one of few.
import { Context, Effect, Layer, Schema } from "effect"
import { Approvals, LocalExecutor, ToolAnnotations, ToolCall, ToolExecutor } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import { heap, median } from "./measure.ts"
import type { Line } from "./table.ts"

const Write = Tool.make("write", {
  parameters: Schema.Struct({ path: Schema.String, content: Schema.String }),
  success: Schema.Boolean
})
  .annotate(ToolAnnotations.Promoted, true)
  .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { readonly path: string }).path }])
const kit = Toolkit.make(Write)
const layer = LocalExecutor.layer(kit, { policy: { default: "ask" }, dedupe: false }).pipe(
  Layer.provide(kit.toLayer({ write: () => Effect.succeed(true) })),
  Layer.provideMerge(Approvals.layer())
)

/**
 * Microseconds that each of a hundred answers takes while so many requests wait, what those take in memory, and
 * milliseconds of one answer that covers all the others.
 */
const answering = (waiting: number) =>
  Effect.gen(function*() {
    const context = yield* Layer.build(Layer.fresh(layer))
    const approvals = Context.get(context, Approvals.Approvals)
    const process_ = yield* Context.get(context, ToolExecutor.ToolExecutor).process()
    const calls = Array.from(
      { length: waiting },
      (_, n) => ToolCall.make(`${n}`, "write", { path: `src/file-${n}.ts`, content: `the content of file ${n}` })
    )
    const before = heap()
    yield* Effect.forkScoped(process_.executeWave(calls))
    while ((yield* approvals.list).length < waiting) yield* Effect.sleep("10 millis")
    const megabytes = heap() - before
    const [last, ...requests] = (yield* approvals.list).slice(0, 101)
    const times: Array<number> = []
    for (const [n, { id }] of requests.entries()) {
      const from = process.hrtime.bigint()
      yield* approvals.answer(id, n % 2 === 0 ? { _tag: "ApproveOnce" } : { _tag: "ApproveForScope" })
      times.push(Number(process.hrtime.bigint() - from) / 1_000)
    }
    const from = process.hrtime.bigint()
    yield* approvals.answer(last!.id, { _tag: "ApproveForScope", scope: "tool" })
    const millis = Number(process.hrtime.bigint() - from) / 1e6
    return { micros: median(times), megabytes, millis }
  }).pipe(Effect.scoped)

export const approvals = Effect.gen(function*() {
  const few: Array<number> = []
  const many: Array<number> = []
  const covering: Array<number> = []
  let megabytes = 0
  for (let round = -1; round < 5; round++) {
    const [one, other] = [yield* answering(101), yield* answering(10_001)]
    if (round < 0) continue
    few.push(one.micros)
    many.push(other.micros)
    covering.push(other.millis)
    megabytes = Math.max(megabytes, other.megabytes)
  }
  return [
    { what: "the heap of 10,000 pending requests", value: megabytes, unit: "MB" },
    {
      what: "an answer while 10,000 are pending vs 100",
      value: median(many),
      peer: median(few),
      unit: "µs"
    },
    { what: "an answer that covers 9,900 others", value: median(covering), unit: "ms" }
  ] satisfies ReadonlyArray<Line>
})
