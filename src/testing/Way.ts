/**
 * Ways in which a scenario gets at the executor under test.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { ToolExecutor } from "../core/engine/ToolExecutor.ts"
import { isEnd, type ToolEvent } from "../core/facts/ToolEvent.ts"
import type * as Approvals from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type { WaveResult } from "../core/vocabulary/ToolOutcome.ts"
import type { Step } from "./Scenario.ts"

/**
 * How a scenario gets at an executor: how its waves are run, and who answers what
 * is asked.
 *
 * @category models
 * @since 0.1.0
 */
export interface Way {
  /** Begins to use a process, which its waves are run in. */
  readonly enter: (stage: {
    readonly executor: ToolExecutor["Service"]
    readonly process: ToolProcess
    readonly people: People | undefined
  }) => Effect.Effect<Entered, never, Scope.Scope>
  /** Answers, as long as the scope is open. */
  readonly answer: (people: People) => Effect.Effect<void, never, Scope.Scope>
}

/**
 * Who answers what is asked, as the script says.
 *
 * @category models
 * @since 0.1.0
 */
export interface People {
  readonly approvals: Approvals.Approvals["Service"]
  /** The answer to the next question about a tool, once its time has come; nobody else gets it. */
  readonly next: (tool: string) => Effect.Effect<Approvals.Answer>
}

/**
 * A process whose waves can be run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Entered {
  /** Runs a wave, until its caller goes away if that is the case. */
  readonly play: (calls: NonNullable<Step["wave"]>, gone: Effect.Effect<void>) => Effect.Effect<Played>
  readonly cancelCall: (id: string) => Effect.Effect<void>
}

/**
 * A wave as it went.
 *
 * @category models
 * @since 0.1.0
 */
export interface Played {
  /** Everything that happened, `ToolsEnd` last. */
  readonly events: ReadonlyArray<ToolEvent>
  /** What its caller was told beside the outcomes; absent if it went away, or if this way does not tell. */
  readonly result?: Pick<WaveResult, "needsContinuation" | "shouldExit">
  /** Why nothing was run. */
  readonly problem?: string
}

/**
 * By the executor's own methods.
 *
 * @category ways
 * @since 0.1.0
 */
export const directly: Way = {
  enter: ({ process }) =>
    Effect.succeed({
      play: (calls, gone) => observe(process, process.executeWave(callsOf(calls)), gone),
      cancelCall: (id) => process.cancelCall(id, "the user stopped it")
    }),
  answer: ({ approvals, next }: People) =>
    approvals.changes.pipe(
      Stream.runForEach((change) =>
        change._tag === "Asked"
          ? Effect.forkScoped(
            Effect.flatMap(
              next(change.request.tool),
              (answer) => Effect.ignore(approvals.answer(change.request.id, answer))
            ),
            { startImmediately: true }
          )
          : Effect.void
      ),
      Effect.forkScoped({ startImmediately: true })
    )
}

/**
 * The calls of a step as an executor takes them.
 *
 * @category conversions
 * @since 0.1.0
 */
export const callsOf = (calls: NonNullable<Step["wave"]>): ReadonlyArray<ToolCall.ToolCall> =>
  calls.map(({ id, name, params }) =>
    typeof params === "string" ? ToolCall.fromText(id, name, params) : ToolCall.make(id, name, params)
  )

/**
 * Runs a wave of a process and gives what its observers see; the caller is
 * interrupted once `gone` ends.
 *
 * @category observing
 * @since 0.1.0
 */
export const observe = Effect.fnUntraced(function*(
  process: ToolProcess,
  run: Effect.Effect<WaveResult, ResumeError | ConfigurationError>,
  gone: Effect.Effect<void>
): Effect.fn.Return<Played> {
  const seen = process.events.pipe(
    // what sub-agents do is theirs
    Stream.filter((event) => event.process === process.id),
    Stream.takeUntil(isEnd),
    Stream.runCollect
  )
  const observer = yield* Effect.forkChild(seen, { startImmediately: true })
  const caller = yield* Effect.forkChild(run, { startImmediately: true })
  const leaving = yield* Effect.forkChild(Effect.andThen(gone, Fiber.interrupt(caller)), { startImmediately: true })
  // of what is refused as a whole there is no end to see
  const refused = Effect.flatMap(
    Fiber.await(caller),
    (exit) => Exit.isFailure(exit) && !Cause.hasInterrupts(exit.cause) ? Effect.succeed([]) : Effect.never
  )
  const events = yield* Effect.raceFirst(Fiber.join(observer), refused)
  const exit = yield* Fiber.await(caller)
  yield* Fiber.interrupt(leaving)
  if (Exit.isSuccess(exit)) return { events, result: exit.value }
  const problem = Cause.hasInterrupts(exit.cause) ? undefined : Cause.squash(exit.cause)
  return problem === undefined
    ? { events }
    : { events, problem: problem instanceof Error ? problem.message : String(problem) }
})
