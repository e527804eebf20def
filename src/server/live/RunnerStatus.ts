/** What a process says of itself where several share their sessions. Without it, one process has all sessions. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Runner } from "../api/ApiRecords.ts"

/** The status of this process as one of several. */
export class RunnerStatus extends Context.Service<RunnerStatus, {
  readonly now: Effect.Effect<Runner>
}>()("effect-tool-executor/server/RunnerStatus") {}
