/** Stop mode: where the first call that was refused, timed out or has an unknown end ends its wave. */
import { clip } from "../../internal/clip.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { Call } from "./Call.ts"
import type { End } from "./CallEnd.ts"

/** A wave whose calls may be behind the place. */
export interface Stoppable {
  /** Decides its calls that have not started, from one place of the step to another; gives them. */
  readonly decideBehind: (from: number, to: number) => ReadonlyArray<Call>
  /** Gives those that are decided their outcomes. */
  readonly skipBehind: (calls: ReadonlyArray<Call>) => void
}

/** The place in a wave behind which calls do not start. */
export class StopPlace {
  /** Waves that no call ends. */
  static readonly none = new StopPlace("continue")

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
    return this.isOn && decided !== undefined && ends[decided._tag] !== undefined
  }

  /** How a call behind the place ends. */
  get skipped(): End {
    return { _tag: "Skipped", because: this.because }
  }

  /** An outcome may be the first error in input order: decides what has not started behind its place, and gives that. */
  endAt(outcome: ToolOutcome, index: number): ReadonlyArray<readonly [wave: Stoppable, behind: ReadonlyArray<Call>]> {
    const { _tag, callId, tool } = outcome
    const { index: before } = this
    const how = ends[_tag]
    if (!this.isOn || index >= before || how === undefined) return []
    this.index = index
    this.because = `call ${clip(callId, 100)} (${clip(tool, 100)}) ${how}`
    return Array.from(this.waves, (wave) => [wave, wave.decideBehind(index + 1, before)])
  }
}

// Utilities

/** The outcomes that end a wave, in words. */
const ends: { readonly [T in ToolOutcome["_tag"]]?: string } = {
  Denied: "was refused",
  TimedOut: "timed out",
  Unknown: "has no end on record"
}
