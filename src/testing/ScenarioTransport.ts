/** How a scenario reaches the executor under test. */
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

/** Runs the waves of a scenario and answers its approval requests. */
export interface ScenarioTransport {
  /** Connects to a process, in which waves then run. */
  readonly connect: (target: {
    readonly executor: ToolExecutor["Service"]
    readonly process: ToolProcess
    readonly approver: Approver | undefined
  }) => Effect.Effect<ConnectedProcess, never, Scope.Scope>
  /** Answers approval requests until the scope closes. */
  readonly answer: (approver: Approver) => Effect.Effect<void, never, Scope.Scope>
}

/** Answers approval requests as the script says. */
export interface Approver {
  readonly approvals: Approvals.Approvals["Service"]
  /** Takes the next answer for a tool, once it is due. Each is used once. */
  readonly next: (tool: string) => Effect.Effect<Approvals.Answer>
}

/** Runs waves of a process. */
export interface ConnectedProcess {
  /** Runs a wave; its caller is interrupted when `gone` ends. */
  readonly play: (calls: NonNullable<Step["wave"]>, gone: Effect.Effect<void>) => Effect.Effect<PlayedWave>
  readonly cancelCall: (id: string) => Effect.Effect<void>
}

/** What happened in a wave. */
export interface PlayedWave {
  /** All events, `ToolsEnd` last. */
  readonly events: ReadonlyArray<ToolEvent>
  /** What the caller received besides outcomes; absent if it was interrupted or the transport does not report it. */
  readonly result?: Pick<WaveResult, "needsContinuation" | "shouldExit">
  /** Why nothing ran. */
  readonly problem?: string
}

/** Calls the methods of the executor. */
export const direct: ScenarioTransport = {
  connect: ({ process }) =>
    Effect.succeed({
      play: (calls, gone) => observe(process, process.executeWave(callsOf(calls)), gone),
      cancelCall: (id) => process.cancelCall(id, "the user stopped it")
    }),
  answer: ({ approvals, next }: Approver) =>
    approvals.changes.pipe(
      Stream.runForEach((change) =>
        change._tag === "Requested"
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

/** Converts the calls of a step for an executor. */
export const callsOf = (calls: NonNullable<Step["wave"]>): ReadonlyArray<ToolCall.ToolCall> =>
  calls.map(({ id, name, params }) =>
    typeof params === "string" ? ToolCall.fromText(id, name, params) : ToolCall.make(id, name, params)
  )

/** Runs a wave and returns what its observers see; the caller is interrupted when `gone` ends. */
export const observe = Effect.fnUntraced(function*(
  process: ToolProcess,
  run: Effect.Effect<WaveResult, ResumeError | ConfigurationError>,
  gone: Effect.Effect<void>
): Effect.fn.Return<PlayedWave> {
  const seen = process.events.pipe(
    Stream.filter((event) => event.process === process.id),
    Stream.takeUntil(isEnd),
    Stream.runCollect
  )
  const observer = yield* Effect.forkChild(seen, { startImmediately: true })
  const caller = yield* Effect.forkChild(run, { startImmediately: true })
  const leaving = yield* Effect.forkChild(Effect.andThen(gone, Fiber.interrupt(caller)), { startImmediately: true })
  // a refused wave has no end event
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
