/** A process that stands still past its lease, and another one that goes on: nothing runs twice at once. */
import * as Effect from "effect/Effect"
import { until } from "./commandProcess.ts"
import type { Line } from "./stateWorker.ts"
import { type Found, start } from "./stateWorkers.ts"

const lease = 400

type Worker = Effect.Success<ReturnType<typeof start<Line>>>

const writes = ({ lines }: Worker) => lines.filter((it) => it._tag === "Wrote")

const ended = ({ lines }: Worker) => lines.filter((it) => it._tag === "Ended")

/** Waits for the next line of its own call, so that the worker is inside of it. */
const inCall = (worker: Worker) => {
  const before = writes(worker).length
  return until(() => writes(worker).length > before)
}

/** Calls, by when they first and last wrote: none begins before the one before it has written its last. */
const overlaps = (lines: ReadonlyArray<Line>): ReadonlyArray<string> => {
  const calls = new Map<string, { first: number; last: number }>()
  for (const it of lines) {
    if (it._tag !== "Wrote") continue
    const { first = it.at, last = it.at } = calls.get(it.call) ?? {}
    calls.set(it.call, { first: Math.min(first, it.at), last: Math.max(last, it.at) })
  }
  const all = Array.from(calls).sort(([, one], [, other]) => one.first - other.first)
  return all.flatMap(([call, { first }], index) => {
    const before = all[index - 1]
    return before !== undefined && before[1].last > first ? [`${before[0]} wrote after ${call} began`] : []
  })
}

/** Stops one of two processes so often past its lease, each time in the middle of a call. */
export const stops = (url: string, count: number) =>
  Effect.gen(function*() {
    const work = { _tag: "Alone", calls: 1_000_000, millis: 60 } as const
    const options = { url, work, lease: `${lease} millis` }
    const [one, other] = yield* Effect.all([start(options), start(options)], { concurrency: 2 })
    yield* Effect.all([one.go, other.go])
    const problems: Array<string> = []
    for (let n = 0; n < count; n++) {
      yield* inCall(one)
      one.child.kill("SIGSTOP")
      // what it wrote before it stood still is read
      yield* Effect.sleep(20)
      const last = one.lines.at(-1)
      yield* inCall(other)
      yield* Effect.sleep(1.2 * lease)
      const before = ended(one).length
      one.child.kill("SIGCONT")
      yield* until(() => ended(one).length > before)
      const { outcomes } = ended(one)[before]!
      if (last?._tag === "Wrote" && outcomes["Unknown"] !== 1) {
        problems.push(`stopped in a call: ${JSON.stringify(outcomes)}`)
      }
    }
    const unknown = [one, other].flatMap(ended).filter((it) => it.outcomes["Unknown"] === 1).length
    const rejected = [one, other].map((it) => it.written.errors.split("settle changed nothing").length - 1)
    const stale = rejected[0]! + rejected[1]!
    if (unknown > stale) problems.push(`${unknown} calls are Unknown, and ${stale} settles were rejected`)
    problems.push(...overlaps([...one.lines, ...other.lines]))
    const summary = `${count} stops past the lease: ${unknown} calls Unknown, ${stale} stale settles rejected, ${
      new Set([...writes(one), ...writes(other)].map((it) => it.call)).size
    } calls, no two at once`
    const found: Found = { summary, problems }
    return found
  }).pipe(Effect.scoped)
