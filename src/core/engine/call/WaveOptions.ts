/** What a caller may choose for one wave. */
import type * as Effect from "effect/Effect"
import type { Mode, RequestOptions } from "../../contract/ToolProcess.ts"
import type { EventHub } from "../report/EventHub.ts"
import type { Caller } from "./Engine.ts"
import type { StopPlace } from "./StopPlace.ts"
import type * as WaveRuns from "./WaveRuns.ts"

/** How calls are resumed that are submitted again after a crash. */
export interface Resumption {
  /** Whether approval is requested before a call runs again that may already have happened. */
  readonly asks: boolean
  /** Why nothing was resumed. */
  problem: ResumeProblem | undefined
}

/**
 * Why nothing is resumed: another live process works on the calls, the journal cannot be read, or calls with these ids
 * are open with other arguments.
 */
export interface ResumeProblem {
  readonly reason: "Running" | "Changed" | "Unavailable"
  readonly calls: ReadonlyArray<string>
  readonly cause?: unknown
}

export interface WaveOptions {
  /** Milliseconds that each call may run; the tool's limit applies, too. */
  readonly timeoutMillis: number
  /** How the wave is split into runs, if different from the settings. */
  readonly mode?: Mode | undefined
  /** The host needs whole outputs: nothing is cut or stored. */
  readonly wholeOutputs: boolean
  /** Whether a model gets the outcomes. It does not see calls that the host makes for itself. */
  readonly told: boolean
  /** The listeners: the process's observers, and the wave's reader if it has one. */
  readonly hub: EventHub
  /** The call whose handle is used, if no running handler makes the calls. */
  readonly handle: Caller | undefined
  /** Set if the calls may have been submitted before, to a process that is gone. Their records then count. */
  readonly resume?: Resumption | undefined
  /** The scope in which equal calls are compared, if the dedupe policy names none. */
  readonly dedupeScope?: RequestOptions["dedupeScope"]
  /** The model step in which the calls are submitted one by one, and their place in it. */
  readonly step?: {
    readonly stop: StopPlace
    readonly index: number
    /** The name of the model message; that of its first wave. */
    readonly message: { name?: string }
    /** Waits until the calls before it in the step let a call run. */
    readonly turn: (item: WaveRuns.Item) => Effect.Effect<void>
  } | undefined
}
