/** Stop mode: the place at which a wave ends because a call was refused, timed out or has an unknown end. */
import { clip } from "../../../internal/clip.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { End } from "../data/CallEnd.ts"
import type { Call } from "./Call.ts"

/** A wave with calls that may be behind the place. */
export interface Stoppable {
  /** Decides its calls between two places of the step that have not started; gives these calls. */
  readonly decideBehind: (from: number, to: number) => ReadonlyArray<Call>
  /** Settles calls that were decided. */
  readonly skipBehind: (calls: ReadonlyArray<Call>) => void
}

/** The place in a wave behind which calls do not start. */
export class StopPlace {
  /** For waves that run to their end. */
  static readonly none = new StopPlace("continue")

  /** Whether stop mode is on. */
  readonly isOn: boolean
  /** Place in the wave, or in the step that the waves belong to; `Infinity` until it is known. */
  index = Infinity
  /** The waves under way that share this place. */
  readonly waves = new Set<Stoppable>()
  private because = ""

  constructor(onExecutionError: "continue" | "stop") {
    this.isOn = onExecutionError === "stop"
  }

  /** Whether a decided call will end the wave at its place. */
  isAt({ decided }: { readonly decided: End | undefined }): boolean {
    return this.isOn && decided !== undefined && ends[decided._tag] !== undefined
  }

  /** How calls behind the place end. */
  get skipped(): End {
    return { _tag: "Skipped", because: this.because }
  }

  /**
   * Takes an outcome into account: if it is the first error in input order, decides the calls behind it that have not
   * started, and gives them.
   */
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

/** The outcomes that end a wave, in words. */
const ends: { readonly [T in ToolOutcome["_tag"]]?: string } = {
  Denied: "was refused",
  TimedOut: "timed out",
  Unknown: "has no end on record"
}
