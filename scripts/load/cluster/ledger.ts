// The ledger of a load: what the handlers did, one line each, and what must hold for it.

/** `began` and `left` span the handler; `done` is its effect. */
export type Phase = "began" | "done" | "left"

export interface Line {
  readonly at: number
  readonly phase: Phase
  readonly tool: string
  readonly key: string
  readonly principal: string
  readonly idempotencyKey: string
  /** The life of the runner that wrote it. */
  readonly runner: string
}

const names = ["at", "phase", "tool", "key", "principal", "idempotencyKey", "runner"] as const

/** One line of the file. */
export const write = (line: Line): string => `${names.map((name) => line[name]).join("\t")}\n`

/** Reads the file; what a kill has cut off is left out. */
export const read = (text: string): ReadonlyArray<Line> =>
  text.split("\n").flatMap((row) => {
    const [at = "", phase, tool, key, principal, idempotencyKey, runner] = row.split("\t")
    return runner === undefined
      ? []
      : [{ at: Number(at), phase: phase as Phase, tool, key, principal, idempotencyKey, runner } as Line]
  })

/** When lives of runners stood still: killed or frozen, and when they were thawed, if they were. */
export interface Stop {
  readonly runner: string
  readonly from: number
  readonly to: number
}

export interface Expected {
  /** What each call ended with. */
  readonly outcomes: ReadonlyMap<string, string>
  /** What was decided about each call that needed approval. */
  readonly decisions: ReadonlyMap<string, string>
  readonly stops: ReadonlyArray<Stop>
  readonly max: number
  readonly cap: number
  readonly resourceOf: (key: string) => string
}

const grouped = <A>(values: ReadonlyArray<A>, by: (value: A) => string): Map<string, Array<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const value of values) {
    const key = by(value)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [value])
    else group.push(value)
  }
  return groups
}

/** What is wrong with a ledger; a sentence each. */
export const problems = (lines: ReadonlyArray<Line>, expected: Expected): ReadonlyArray<string> => [
  ...repeated(lines),
  ...unlike(lines, expected),
  ...overLimit(lines, expected.max),
  ...crowded(lines, expected)
]

/** What must not repeat, and what repeats with another key. */
const repeated = (lines: ReadonlyArray<Line>): ReadonlyArray<string> =>
  Array.from(grouped(lines.filter(({ phase }) => phase === "done"), ({ key }) => key)).flatMap(([key, done]) => {
    const { tool } = done[0]!
    if (tool !== "send") return done.length > 1 ? [`${tool} ${key} was done ${done.length} times`] : []
    return new Set(done.map((it) => it.idempotencyKey)).size > 1 ? [`${key} was sent under two keys`] : []
  })

/** Outcomes and decisions that differ from what was done. */
const unlike = (lines: ReadonlyArray<Line>, { decisions, outcomes }: Expected): ReadonlyArray<string> => {
  const done = new Map(lines.filter(({ phase }) => phase === "done").map((it) => [it.key, it]))
  const withoutEffect = Array.from(outcomes).flatMap(([key, outcome]) => {
    if (key.endsWith(".look")) return []
    if (outcome === "Succeeded") return done.has(key) ? [] : [`${key} succeeded and was not done`]
    return outcome === "Denied" && done.has(key) ? [`${key} was denied and done`] : []
  })
  const against = Array.from(decisions).flatMap(([key, decision]) =>
    decision === "Deny" && done.has(key) ? [`${key} was denied by a person and done`] : []
  )
  const unasked = Array.from(done.values()).flatMap(({ key, tool }) =>
    tool === "ask" && decisions.get(key) !== "ApproveOnce" ? [`${key} was done without approval`] : []
  )
  return [...withoutEffect, ...against, ...unasked]
}

/** Limits of whole sessions: calls, groups and order. */
const overLimit = (lines: ReadonlyArray<Line>, max: number): ReadonlyArray<string> =>
  Array.from(grouped(lines, ({ principal }) => principal)).flatMap(([principal, all]) => {
    const begun = (tool: string) => new Set(all.filter((it) => it.tool === tool).map(({ key }) => key))
    const limited = begun("limited").size
    const refund = all.find(({ tool }) => tool === "refund")
    const verified = all.find(({ phase, tool }) => tool === "verify" && phase === "done")
    return [
      ...limited > max ? [`${principal}: limited began ${limited} times`] : [],
      ...begun("left").size > 0 && begun("right").size > 0 ? [`${principal}: left and right both began`] : [],
      ...refund !== undefined && (verified === undefined || verified.at > refund.at)
        ? [`${principal}: refund began before verify`]
        : []
    ]
  })

interface Stay {
  readonly from: number
  readonly to: number
}

/** When a handler was at work: until it left, or its process stood still. */
const stays = (lines: ReadonlyArray<Line>, stops: ReadonlyArray<Stop>): ReadonlyArray<Stay> =>
  Array.from(grouped(lines, ({ key, runner }) => `${key} ${runner}`).values()).map((life) => {
    const from = life[0]!.at
    const left = life.find(({ phase }) => phase === "left")?.at ?? Infinity
    const stop = stops.find((it) => it.runner === life[0]!.runner && it.to > from)
    return { from, to: Math.min(left, stop === undefined ? Infinity : Math.max(from, stop.from)) }
  })

/** The most that were at work at once. */
const most = (all: ReadonlyArray<Stay>): number => {
  const steps = all.flatMap(({ from, to }) => [[from, 1], [to, -1]] as const)
  let [now, peak] = [0, 0]
  // one that leaves in the same millisecond leaves first
  for (const [, step] of steps.toSorted(([at, one], [than, other]) => at - than || one - other)) {
    now += step
    peak = Math.max(peak, now)
  }
  return peak
}

const crowded = (lines: ReadonlyArray<Line>, { cap, resourceOf, stops }: Expected): ReadonlyArray<string> => {
  const capped = most(stays(lines.filter(({ tool }) => tool === "capped"), stops))
  const shelves = grouped(lines.filter(({ tool }) => tool === "keyed"), ({ key }) => resourceOf(key))
  return [
    ...capped > cap ? [`capped ran ${capped} at once`] : [],
    ...Array.from(shelves).flatMap(([shelf, all]) => {
      const peak = most(stays(all, stops))
      return peak > 1 ? [`${shelf} was written by ${peak} at once`] : []
    })
  ]
}
