/** What a caller says of one wave. */
import type * as Effect from "effect/Effect"
import type { Mode } from "../contract/ToolProcess.ts"
import type { Caller } from "./Engine.ts"
import type { EventHub } from "./report/EventHub.ts"
import type { StopPlace } from "./StopPlace.ts"
import type * as WaveRuns from "./WaveRuns.ts"

/** What is done with calls that are handed over again after a crash. */
export interface Resumption {
  /** A person is asked whether a call is run again that may have happened. */
  readonly asks: boolean
  /** Why nothing was resumed. */
  problem: ResumeProblem | undefined
}

/**
 * Why nothing is resumed: somebody alive works on the calls, the journal cannot be read, or calls of these ids are open
 * with other arguments.
 */
export interface ResumeProblem {
  readonly reason: "Running" | "Changed" | "Unavailable"
  readonly calls: ReadonlyArray<string>
  readonly cause?: unknown
}

/** What a caller may say of one wave. */
export interface WaveOptions {
  /** Milliseconds that each call may run at most; the tool's own limit still holds. */
  readonly timeoutMillis: number
  /** How the wave is cut into runs, if not as the settings have it. */
  readonly mode?: Mode | undefined
  /** The host needs whole outputs: nothing is cut or stored. */
  readonly wholeOutputs: boolean
  /** A model is told of the outcomes; what a host calls for itself none knows of. */
  readonly told: boolean
  /** Who is told: the process's observers, and the wave's own reader if it has one. */
  readonly hub: EventHub
  /** The call with whose handle the calls are made, where no running handler makes them. */
  readonly handle: Caller | undefined
  /** The calls may have been handed over before, to a process that is gone: what is on record of them counts. */
  readonly resume?: Resumption | undefined
  /** The model step that its calls are handed over in, one by one, and where they stand in it. */
  readonly step?: {
    readonly stop: StopPlace
    readonly index: number
    /** Ends once those that arrived before it let a call go. */
    readonly turn: (item: WaveRuns.Item) => Effect.Effect<void>
  } | undefined
}
