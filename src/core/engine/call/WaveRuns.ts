/**
 * Splits a wave into runs. Pure.
 *
 * A run is a maximal sequence of neighbouring calls that may overlap. Runs follow one another, so a read after a write
 * sees the write.
 */
import type { ToolClass } from "../../vocabulary/ToolHandlers.ts"

/** What the split depends on. */
export interface Item {
  /** `ShortCircuit`: the call was refused on Arrival and runs nothing. */
  readonly class: ToolClass | "ShortCircuit"
  /** An ordering rule names the tool, so its run ends with it. */
  readonly closesRun: boolean
}

/**
 * Splits a wave into runs, each a list of places in the wave.
 *
 * A SerialMut call is a run alone: such calls run one by one in input order. A refused call joins the run around it, or
 * the next one, and never separates its neighbours.
 */
export const cut = (
  items: ReadonlyArray<Item>,
  mode: "classes" | "parallel" | "sequential"
): ReadonlyArray<ReadonlyArray<number>> => {
  if (mode === "sequential") return items.map((_, index) => [index])
  if (mode === "parallel") return items.length === 0 ? [] : [items.map((_, index) => index)]
  const runs: Array<ReadonlyArray<number>> = []
  let run: Array<number> = []
  /** Class of the open run; undefined while it holds refused calls only. */
  let open: ToolClass | undefined
  const close = () => {
    if (run.length > 0) runs.push(run)
    run = []
    open = undefined
  }
  items.forEach((item, index) => {
    if (item.class === "ShortCircuit") {
      run.push(index)
      return
    }
    if (open !== undefined && open !== item.class) close()
    run.push(index)
    open = item.class
    if (item.closesRun || item.class === "SerialMut") close()
  })
  close()
  return runs
}
