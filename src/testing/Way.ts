/**
 * Ways in which a scenario gets at the executor under test.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Approvals from "../policy/Approvals.ts"
import * as ToolCall from "../ToolCall.ts"
import type { ToolEvent } from "../ToolEvent.ts"
import type { ToolExecutor } from "../ToolExecutor.ts"
import type { ToolProcess } from "../ToolProcess.ts"
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
  /** Runs a wave and gives everything that happened, `ToolsEnd` last. */
  readonly play: (calls: NonNullable<Step["wave"]>) => Effect.Effect<ReadonlyArray<ToolEvent>>
  readonly cancelCall: (id: string) => Effect.Effect<void>
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
      play: (calls) =>
        Stream.runCollect(process.stream(calls.map(({ id, name, params }) =>
          typeof params === "string" ? ToolCall.fromText(id, name, params) : ToolCall.make(id, name, params)
        ))),
      cancelCall: (id) =>
        process.cancelCall(id, "the user stopped it")
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
