/**
 * An executor for tests: built as in production, with scripted approval and recorded events.
 *
 * In `VirtualTime.run`, timeouts, approval and cooldowns take no real time. `expectOutcomes`, `expectEvents`, `ran` and
 * `asked` compare what happened and throw an error that shows the differences.
 */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as LocalExecutor from "../assembly/LocalExecutor.ts"
import type { Batch, NewProcessOptions, ProcessOptions, Service } from "../core/contract/Executor.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import { ToolExecutor } from "../core/engine/ToolExecutor.ts"
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { HandlersOf } from "../core/vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import { outcomesOf } from "./Matchers.ts"

export * from "./Matchers.ts"

/** What the executor of a test recorded. */
export class TestExecutor extends Context.Service<TestExecutor, {
  /** The events of all processes and sub-agents so far, in order. */
  readonly events: Effect.Effect<ReadonlyArray<ToolEvent>>
  /** All outcomes so far, in the order calls were queued. */
  readonly outcomes: Effect.Effect<ReadonlyArray<ToolOutcome>>
}>()("effect-tool-executor/testing/TestExecutor") {}

/** Options of a test executor: those of `LocalExecutor.layer`, and who answers. */
export interface Options extends LocalExecutor.Options {
  /**
   * Answers approval requests; `"nothing"` never answers. Default: the approver in the context; without one, calls that
   * need approval are refused.
   */
  readonly answer?:
    | ((request: Approvals.ApprovalRequest) => Said | Effect.Effect<Said>)
    | undefined
}

/** A scripted answer. */
export type Said = Approvals.Answer | "nothing"

/**
 * Provides an executor over toolkits and its recorder.
 *
 * **Example** (A tool that hangs, and a person who says no)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { ToolCall, ToolExecutor } from "effect-tool-executor"
 * import { TestExecutor, VirtualTime } from "effect-tool-executor/testing"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Wait = Tool.make("wait").annotate(Tool.Readonly, true)
 * const Send = Tool.make("send", { parameters: Schema.Struct({ to: Schema.String }) })
 * const toolkit = Toolkit.make(Wait, Send)
 *
 * const handlers = toolkit.toLayer({ wait: () => Effect.never, send: () => Effect.void })
 *
 * const executor = TestExecutor.layer(toolkit, { answer: () => ({ _tag: "Deny" }), executionTimeout: "1 minute" })
 *
 * const program = Effect.gen(function*() {
 *   const process = yield* (yield* ToolExecutor.ToolExecutor).process()
 *   yield* process.executeWave([ToolCall.make("1", "wait"), ToolCall.make("2", "send", { to: "ada" })])
 *   const { events, outcomes } = yield* TestExecutor.TestExecutor
 *   TestExecutor.expectOutcomes(yield* outcomes, ["TimedOut", { reason: "PermissionDenied", by: "user" }])
 *   TestExecutor.ran(yield* events, ["wait"])
 *   TestExecutor.asked(yield* events, ["send: Deny"])
 * }).pipe(Effect.scoped, Effect.provide(executor.pipe(Layer.provide(handlers))))
 *
 * await Effect.runPromise(VirtualTime.run(program))
 * ```
 */
export const layer = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  { answer, ...options }: Options = {}
): Layer.Layer<ToolExecutor | TestExecutor, ConfigurationError, HandlersOf<T>> =>
  recorded.pipe(
    Layer.provide(LocalExecutor.layer(toolkits, options)),
    // also used by an agent over the executor
    Layer.provideMerge(answer === undefined ? Layer.empty : people(answer))
  )

/** Answers approval requests with a function, also for an agent above the executor. */
export const people = (
  answer: NonNullable<Options["answer"]>
): Layer.Layer<Approvals.Approvals, ConfigurationError> =>
  Approvals.layerApprover((request) => {
    const said = answer(request)
    return Effect.flatMap(
      Effect.isEffect(said) ? said : Effect.succeed(said),
      (it) => it === "nothing" ? Effect.never : Effect.succeed(it)
    )
  })

/** Records the events of an existing executor. */
export const recorded: Layer.Layer<ToolExecutor | TestExecutor, never, ToolExecutor> = Layer.effectContext(
  Effect.gen(function*() {
    const executor = yield* ToolExecutor
    const scope = yield* Effect.scope
    const seen: Array<ToolEvent> = []
    const events = Effect.gen(function*() {
      // events reported before still have to arrive
      for (let known = -1; known < seen.length; known = seen.length) yield* Effect.yieldNow
      return [...seen]
    })
    return Context.make(ToolExecutor, observed(executor, scope, (event) => seen.push(event))).pipe(
      Context.add(TestExecutor, { events, outcomes: Effect.map(events, outcomesOf) })
    )
  })
)

/** The same executor with all processes observed from their start. */
const observed = (executor: Service, scope: Scope.Scope, tell: (event: ToolEvent) => void): Service => {
  const observe = (process: ToolProcess) =>
    Stream.runForEach(process.events, (event) => Effect.sync(() => tell(event))).pipe(
      Effect.forkIn(scope, { startImmediately: true }),
      Effect.as(process)
    )
  const ofBatch = (batch: Batch): Batch => ({
    ...batch,
    process:
      ((options: ProcessOptions | undefined) => Effect.flatMap(batch.process(options), observe)) as Batch["process"]
  })
  return {
    ...executor,
    process:
      ((options: NewProcessOptions | undefined) => Effect.flatMap(executor.process(options), observe)) as Service[
        "process"
      ],
    batch: (id) => Effect.map(executor.batch(id), ofBatch),
    fork: (options) => Effect.map(executor.fork(options), (it) => observed(it, scope, tell)),
    readOnly: (options) => Effect.map(executor.readOnly(options), (it) => observed(it, scope, tell))
  }
}
