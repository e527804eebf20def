// What most of it is measured on: one toolkit, its calls behind the executor with every gate on, and the same work by
// hand over the same handlers, without any promise.
import { Context, Duration, Effect, identity, Layer, Schema, Semaphore } from "effect"
import { LocalExecutor, ToolAnnotations, ToolCall, ToolExecutor, type ToolProcess } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import type { Side } from "./measure.ts"

export const Params = Schema.Struct({ path: Schema.String, n: Schema.Finite })
type Params = typeof Params.Type

const reading = (name: string) =>
  Tool.make(name, { parameters: Params, success: Params }).annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false)

export const kit = Toolkit.make(
  reading("read"),
  reading("yielding"),
  reading("waiting"),
  reading("capped").annotate(ToolAnnotations.MaxConcurrent, 1),
  Tool.make("write", { parameters: Params, success: Params }).annotate(ToolAnnotations.Promoted, true)
)
const done = ({ n, path }: Params): Params => ({ path, n: n + 1 })

export const handlers = {
  read: (params: Params) => Effect.sync(() => done(params)),
  write: (params: Params) => Effect.sync(() => done(params)),
  yielding: (params: Params) => Effect.map(Effect.yieldNow, () => done(params)),
  waiting: (params: Params) => Effect.map(Effect.sleep("5 millis"), () => done(params)),
  capped: (params: Params) => Effect.map(Effect.yieldNow, () => done(params))
}

export type Name = keyof typeof handlers

export type Handled = Toolkit.WithHandler<typeof kit.tools>

/** So many permits that nothing waits for one. */
export const plenty = 1_000_000

interface Options {
  readonly dedupe?: false
  readonly telemetry?: "off"
}

/** A layer with every gate on, but for what the options turn off. */
export const layer = (permits: number, options?: Options) =>
  LocalExecutor.layer(kit, {
    rules: [{ _tag: "MaxCalls", tool: "*", max: 1_000_000_000 }],
    pools: { read: permits, concurrent: permits },
    policy: { default: "allow" },
    executionTimeout: "30 seconds",
    ...options
  }).pipe(Layer.provide(kit.toLayer(handlers)))

/** An executor with so many permits, and what it keeps elsewhere. */
export const executor = Effect.fnUntraced(function*<E = never>(
  permits: number,
  options?: Options,
  records: Layer.Layer<never, E> = Layer.empty
) {
  const made: Layer.Layer<ToolExecutor.ToolExecutor, unknown> = Layer.provide(layer(permits, options), records)
  return Context.get(yield* Layer.build(Layer.fresh(made)), ToolExecutor.ToolExecutor)
})

/** A process of such an executor. */
export const open = <E = never>(permits: number, options?: Options, records?: Layer.Layer<never, E>) =>
  Effect.flatMap(executor(permits, options, records), (it) => it.process())

let serial = 0

/** A call with parameters of its own: equal ones would be duplicates. */
export const call = (name: Name): ToolCall.ToolCall =>
  ToolCall.make(`c${++serial}`, name, { path: `/src/file-${serial}.ts`, n: serial })

/** So many waves of one size, one after another, as one run; what is made of a call is up to the caller. */
export const side = <A>(
  make: () => A,
  run: (wave: ReadonlyArray<A>) => Promise<unknown>,
  size: number,
  waves = 1
): Side => ({
  calls: size * waves,
  prepare: () => {
    const prepared = Array.from({ length: waves }, () => Array.from({ length: size }, make))
    return async () => {
      for (const wave of prepared) await run(wave)
    }
  }
})

/** Waves through the executor. */
export const ours = (process: ToolProcess.ToolProcess, name: Name, size: number, waves?: number): Side =>
  side(() => call(name), (calls) => Effect.runPromise(process.executeWave(calls)), size, waves)

/** The same, each wave in a batch of its own, as requests of users are. */
export const requests = (executor: ToolExecutor.ToolExecutor["Service"], name: Name, size: number): Side =>
  side(
    () => call(name),
    (calls) => Effect.runPromise(Effect.scoped(Effect.flatMap(executor.process(), (it) => it.executeWave(calls)))),
    size
  )

/** The floor: what one would write by hand. */
export const byHand = (
  permits: number,
  name: Name,
  size: number,
  waves?: number,
  around: <A, E>(one: Effect.Effect<A, E>, call: ToolCall.ToolCall) => Effect.Effect<A, E> = identity
): Side => {
  const decode = Schema.decodeUnknownEffect(Params)
  const semaphore = Semaphore.makeUnsafe(permits)
  const limit = Duration.seconds(30)
  const one = (call: ToolCall.ToolCall) => {
    const decoded = decode(call.params)
    return around(
      Effect.exit(Effect.timeout(semaphore.withPermits(1)(Effect.flatMap(decoded, handlers[name])), limit)),
      call
    )
  }
  const run = (calls: ReadonlyArray<ToolCall.ToolCall>) =>
    Effect.runPromise(Effect.forEach(calls, one, { concurrency: "unbounded" }))
  return side(() => call(name), run, size, waves)
}
