/** The visible part of a timeline: zooming, moving, and marks on its axis. Pure. */
import type { Lane } from "../../core/facts/Lanes.ts"

/** The part of time that a picture shows. */
export interface View {
  readonly from: number
  readonly to: number
}

/** All of the time of the lanes. */
export const fit = (lanes: ReadonlyArray<Lane>, now: number): View => {
  let from = Infinity
  let to = -Infinity
  for (const lane of lanes) {
    from = Math.min(from, lane.from)
    to = Math.max(to, lane.to ?? now)
  }
  return from === Infinity ? { from: now, to: now + 1 } : { from, to: Math.max(to, from + 1) }
}

/** Shows less or, with a factor above 1, more time around a point, from a millisecond to a week. */
export const zoom = ({ from, to }: View, factor: number, around: number = (from + to) / 2): View => {
  const span = Math.min(604_800_000, Math.max(1, (to - from) * factor))
  const share = to === from ? 0.5 : (around - from) / (to - from)
  return { from: around - span * share, to: around + span * (1 - share) }
}

/** Shows time further on, or back, by a share of what is shown. */
export const pan = ({ from, to }: View, share: number): View => ({
  from: from + (to - from) * share,
  to: to + (to - from) * share
})

/** Gives round times to mark on an axis, some `count` of them. */
export const ticksOf = ({ from, to }: View, start: number, count: number): ReadonlyArray<number> => {
  const rough = (to - from) / Math.max(1, count)
  const step = steps.find((it) => it >= rough) ?? 86_400_000 * Math.ceil(rough / 86_400_000)
  const first = start + Math.ceil((from - start) / step) * step
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, at) => first + at * step)
}

const steps = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  1e3,
  2e3,
  5e3,
  1e4,
  2e4,
  3e4,
  6e4,
  12e4,
  3e5,
  6e5,
  18e5,
  36e5,
  108e5,
  216e5,
  864e5
]
