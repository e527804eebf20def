// Benchmarks as one table. Nothing here fails: it is for reading.
import { Context, Duration, Effect, Layer, Schema, Semaphore } from "effect"
import { LocalExecutor, ToolAnnotations, ToolCall, ToolExecutor, type ToolProcess } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import * as ApprovalBench from "./approvals.ts"
import * as GuardBench from "./guard.ts"
import { compare, fixed, median, type Side, time } from "./measure.ts"
import * as RuleBench from "./rules.ts"

const Params = Schema.Struct({ path: Schema.String, line: Schema.Int, deep: Schema.Boolean })
const options = { parameters: Params, success: Schema.Struct({ ok: Schema.Boolean }) }
const Read = Tool.make("read", options).annotate(Tool.Readonly, true)
const Yielding = Tool.make("yielding", options).annotate(Tool.Readonly, true)
const Capped = Tool.make("capped", options).annotate(Tool.Readonly, true).annotate(ToolAnnotations.MaxConcurrent, 1)
const kit = Toolkit.make(Read, Yielding, Capped)

const done = { ok: true }
const handlers = {
  read: () => Effect.succeed(done),
  yielding: () => Effect.as(Effect.yieldNow, done),
  capped: () => Effect.as(Effect.yieldNow, done)
}
const rules = [
  { _tag: "MaxCalls", tool: "*", max: 1_000_000_000 } as const,
  { _tag: "MaxCalls", tool: "read", max: 1_000_000_000 } as const
]
const layer = LocalExecutor.layer(kit, {
  rules,
  policy: { default: "allow" },
  guards: [],
  executionTimeout: "30 seconds",
  turn: { timeout: "10 hours", maxCalls: 1_000_000_000 }
}).pipe(Layer.provide(kit.toLayer(handlers)))

let serial = 0
// fresh parameters each time: equal calls would be duplicates
const wave = (name: string, size: number): ReadonlyArray<ToolCall.ToolCall> =>
  Array.from(
    { length: size },
    () => ToolCall.make(`c${++serial}`, name, { path: `p${serial}`, line: serial, deep: true })
  )

// the floor: what one would write by hand over the same handlers, without any promise
const floor = (handler: () => Effect.Effect<unknown>) => {
  const decode = Schema.decodeUnknownEffect(Params)
  const semaphore = Semaphore.makeUnsafe(20)
  const limit = Duration.seconds(30)
  return (calls: ReadonlyArray<ToolCall.ToolCall>) =>
    Effect.forEach(calls, (call) =>
      Effect.exit(
        Effect.timeout(
          semaphore.withPermits(1)(Effect.flatMap(decode(call.params), handler)),
          limit
        )
      ), { concurrency: "unbounded" })
}

const main = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  const batch = yield* executor.batch("bench")
  const context = yield* Effect.context<never>()
  const run = <A>(effect: Effect.Effect<A>) => Effect.runPromiseWith(context)(effect)
  let toolProcess: ToolProcess.ToolProcess = yield* batch.process()
  const ours = (name: string, size: number): Side => ({
    name: "executor",
    prepare: () => {
      const calls = wave(name, size)
      return () => run(toolProcess.executeWave(calls))
    }
  })
  const byHand = (name: "read" | "yielding", size: number): Side => {
    const floorRun = floor(handlers[name])
    return {
      name: "floor",
      prepare: () => {
        const calls = wave(name, size)
        return () => run(floorRun(calls))
      }
    }
  }
  const rows: Array<Record<string, string | number>> = []
  const row = (what: string, values: Record<string, string | number>) => rows.push({ what, ...values })
  yield* Effect.promise(async () => {
    for (const [name, size, rounds] of [["read", 1_000, 60], ["yielding", 1_000, 30]] as const) {
      const [executorTime, floorTime] = await compare([ours(name, size), byHand(name, size)], size, rounds)
      row(`${name} x ${size}`, {
        "us/call": fixed(executorTime!),
        "floor us/call": fixed(floorTime!),
        ratio: fixed(executorTime! / floorTime!)
      })
    }
    const sizes = [1, 10, 100, 1_000, 10_000]
    const grown = await Promise.resolve().then(async () => {
      const perSize: Array<number> = []
      for (const size of sizes) {
        perSize.push((await compare([ours("read", size)], size, size >= 10_000 ? 15 : size === 1 ? 400 : 60))[0]!)
      }
      return perSize
    })
    sizes.forEach((size, index) => row(`read, wave of ${size}`, { "us/call": fixed(grown[index]!) }))
    row("growth 100 -> 10,000", { ratio: fixed(grown[4]! / grown[2]!) })
    const capped: Array<number> = []
    for (const size of [1_000, 10_000]) {
      capped.push((await compare([ours("capped", size)], size, size === 1_000 ? 15 : 5))[0]!)
      row(`capped at 1, wave of ${size}`, { "us/call": fixed(capped.at(-1)!) })
    }
    row("capped growth 1,000 -> 10,000", { ratio: fixed(capped[1]! / capped[0]!) })
  })

  // 2,000 waves of one process: the last hundred beside the first
  toolProcess = yield* batch.process()
  const waves: Array<number> = []
  const heap = () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed / 1e6
  }
  let heapEarly = 0
  yield* Effect.promise(async () => {
    for (let i = 0; i < 2_000; i++) {
      const calls = wave("read", 50)
      waves.push(await time(() => run(toolProcess.executeWave(calls))) / 50)
      // the dedupe keys are bounded: after 10,000 of them memory stays
      if (i === 400) heapEarly = heap()
    }
  })
  row("2,000 waves of 50: last / first 300", {
    "us/call": fixed(median(waves.slice(-300))),
    ratio: fixed(median(waves.slice(-300)) / median(waves.slice(100, 400))),
    "heap MB": `${heapEarly.toFixed(1)} -> ${heap().toFixed(1)}`
  })

  const calls = wave("yielding", 10_000)
  const before = heap()
  let peak = before
  const sampler = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().heapUsed / 1e6)
  }, 1)
  const rss = process.memoryUsage().rss / 1e6
  yield* Effect.promise(() => run(toolProcess.executeWave(calls)))
  clearInterval(sampler)
  row("memory of a wave of 10,000", {
    "heap MB": `+${(Math.max(peak, process.memoryUsage().heapUsed / 1e6) - before).toFixed(0)}`,
    "rss MB": `+${(process.memoryUsage().rss / 1e6 - rss).toFixed(0)}`
  })
  for (const [what, values] of Object.entries(yield* RuleBench.rows)) row(what, values)
  for (const [what, values] of Object.entries(yield* ApprovalBench.rows)) row(what, values)
  for (const [what, values] of Object.entries(yield* GuardBench.rows)) row(what, values)
  console.table(Object.fromEntries(rows.map(({ what, ...values }) => [what, values])))
}).pipe(Effect.scoped, Effect.provide(layer), Effect.provideContext(Context.empty()))

await Effect.runPromise(main)
