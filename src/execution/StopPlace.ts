/**
 * Stop mode: where the first refused or timed out call ends its wave.
 *
 * @since 0.1.0
 */
import { clip } from "../internal/clip.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { Call } from "./Call.ts"
import type { End } from "./End.ts"

/**
 * A wave whose calls may be behind the place.
 *
 * @category models
 * @since 0.1.0
 */
export interface Stoppable {
  /** Decides its calls that have not started, from one place of the step to another; gives them. */
  readonly decideBehind: (from: number, to: number) => ReadonlyArray<Call>
  /** Gives those that are decided their outcomes. */
  readonly skipBehind: (calls: ReadonlyArray<Call>) => void
}

/**
 * The place in a wave behind which calls do not start.
 *
 * @category models
 * @since 0.1.0
 */
export class StopPlace {
  /** It is looked for at all. */
  readonly isOn: boolean
  /** Place in the wave, or in the step that waves are handed over in; `Infinity` while it is not known. */
  index = Infinity
  /** The waves that it is the place of, while they are under way. */
  readonly waves = new Set<Stoppable>()
  private because = ""

  constructor(onExecutionError: "continue" | "stop") {
    this.isOn = onExecutionError === "stop"
  }

  /** Whether a call that is decided already will end the wave at its place. */
  isAt({ decided }: { readonly decided: End | undefined }): boolean {
    return this.isOn && decided?._tag === "Denied"
  }

  /** How a call behind the place ends. */
  get skipped(): End {
    return { _tag: "Skipped", because: this.because }
  }

  /** An outcome may be the first error in input order: decides what has not started behind its place, and gives that. */
  endAt(outcome: ToolOutcome, index: number): ReadonlyArray<readonly [wave: Stoppable, behind: ReadonlyArray<Call>]> {
    const { _tag, callId, tool } = outcome
    const { index: before } = this
    if (!this.isOn || index >= before || (_tag !== "Denied" && _tag !== "TimedOut")) return []
    this.index = index
    this.because = `call ${clip(callId, 100)} (${clip(tool, 100)}) ${_tag === "Denied" ? "was refused" : "timed out"}`
    return Array.from(this.waves, (wave) => [wave, wave.decideBehind(index + 1, before)])
  }
}
