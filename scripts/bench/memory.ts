// What calls cost in memory: allocated by each, held by a long process, taken by a wide wave.
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { heap, median, time } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

/** Counted by a process of its own, whose young generation is so wide that nothing is collected meanwhile. */
export const allocated = Effect.sync(() => {
  const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))
  const wide = ["--min-semi-space-size=1024", "--max-semi-space-size=1024"]
  const given = execFileSync(
    process.execPath,
    ["--expose-gc", ...wide, "--import", file("../source-resolver.ts"), file("allocated.ts")],
    { encoding: "utf8" }
  )
  const [value, without, peer] = JSON.parse(given) as readonly [number, number, number]
  return [
    { what: "allocated by a call", value, peer, unit: "kB/call", bar: { of: "value", limit: 6 } },
    { what: "the same without dedupe", value: without, peer, unit: "kB/call" }
  ] satisfies ReadonlyArray<Line>
})

/** Two thousand waves of one process, a hundred at a time: the last three hundred next to the first that count. */
export const long = Effect.gen(function*() {
  const process = yield* Subject.open(Subject.plenty)
  const { calls, prepare } = Subject.ours(process, "read", 50, 100)
  const hundreds: Array<number> = []
  let early = 0
  yield* Effect.promise(async () => {
    for (let hundred = 0; hundred < 20; hundred++) {
      hundreds.push(await time(prepare()) / calls)
      // keys of calls are bounded: after ten thousand of them memory stays
      if (hundred === 3) early = heap()
    }
  })
  return [
    {
      what: "a call in the last of 2,000 waves vs the first",
      value: median(hundreds.slice(-3)),
      peer: median(hundreds.slice(1, 4)),
      unit: "µs/call"
    },
    { what: "the heap after 2,000 waves vs after 400", value: heap(), peer: early, unit: "MB" }
  ] satisfies ReadonlyArray<Line>
})

/** What is in use at most while ten thousand calls run. */
export const wide = Effect.gen(function*() {
  const process_ = yield* Subject.open(20)
  const run = Subject.ours(process_, "yielding", 10_000).prepare()
  const before = heap()
  const used = () => process.memoryUsage().heapUsed / 1e6
  let peak = before
  const sampler = setInterval(() => {
    peak = Math.max(peak, used())
  }, 1)
  yield* Effect.promise(run)
  clearInterval(sampler)
  return [
    { what: "the heap of a wave of 10,000", value: Math.max(peak, used()) - before, unit: "MB" }
  ] satisfies ReadonlyArray<Line>
})
