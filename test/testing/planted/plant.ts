/** How a bug gets into an executor: one of its parts does a little less, or a little more. */
import { Context, Effect, Layer } from "effect"
import {
  type ConfigurationError,
  ToolContext,
  ToolExecutor,
  ToolHandlers,
  type ToolProcess
} from "effect-tool-executor"
import type * as LawPlay from "../../support/laws/LawPlay.ts"
import type * as LawWorld from "../../support/laws/LawWorld.ts"

export type Planted = LawPlay.ExecutorLayer<ConfigurationError.ConfigurationError>

/** An executor one of whose parts is another. */
export const part = <I extends LawWorld.Environment, S>(key: Context.Key<I, S>, change: (service: S) => S): Planted =>
  ToolExecutor.layer.pipe(Layer.provide(Layer.effect(key, Effect.map(key, change)))) as Planted

/** An executor whose registered tools are others. */
export const tools = (
  change: (tool: ToolHandlers.RegisteredTool) => Partial<ToolHandlers.RegisteredTool>
): Planted =>
  part(ToolHandlers.ToolHandlers, (handlers) => {
    const registry = new Map(Array.from(handlers.current(), ([name, it]) => [name, { ...it, ...change(it) }]))
    return { ...handlers, current: () => registry }
  })

/** An executor whose handlers run in another way. */
export const handlers = (
  change: (run: Effect.Effect<unknown, unknown>, context: ToolContext.Service) => Effect.Effect<unknown, unknown>
): Planted =>
  tools(({ handler }) => ({
    handler: (params, context) => Effect.flatMap(ToolContext.ToolContext, (it) => change(handler(params, context), it))
  }))

/** An executor that does something else. */
export const executor = (
  change: (executor: ToolExecutor.Service) => Partial<ToolExecutor.Service>,
  changeProcess: (
    process: ToolProcess.ToolProcess,
    executor: ToolExecutor.Service
  ) => { readonly [K in keyof ToolProcess.ToolProcess]?: unknown } = () => ({})
): Planted =>
  Layer.effect(
    ToolExecutor.ToolExecutor,
    Effect.map(Layer.build(ToolExecutor.layer), (context) => {
      const inner = Context.get(context, ToolExecutor.ToolExecutor)
      const other = (process: ToolProcess.ToolProcess) => like(process, changeProcess(process, inner))
      return like(inner, {
        process: (options?: ToolExecutor.NewProcessOptions) => Effect.map(inner.process(options), other),
        batch: (id?: string) =>
          Effect.map(inner.batch(id), (batch) =>
            like(batch, {
              process: (options?: ToolExecutor.ProcessOptions) => Effect.map(batch.process(options), other)
            })),
        ...change(inner)
      })
    })
  )

/** An executor whose processes do something else. */
export const processes = (
  change: (process: ToolProcess.ToolProcess) => { readonly [K in keyof ToolProcess.ToolProcess]?: unknown }
): Planted => executor(() => ({}), change)

/** The same, but for some of what it does. */
export const like = <A extends object>(value: A, other: { readonly [K in keyof A]?: unknown }): A =>
  new Proxy(value, {
    get: (it, name) => Object.hasOwn(other, name) ? other[name as keyof A] : Reflect.get(it, name, it)
  })
