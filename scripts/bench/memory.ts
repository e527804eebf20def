// What calls cost in memory: allocated by each, held by a long process, taken by a wide wave.
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { makeMemory } from "../../src/core/store/StateStore.ts"
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

/** Bytes that the store keeps of a settled call: no outcome, and of its arguments a digest, however long they are. */
export const remembered = Effect.gen(function*() {
  const count = 50_000
  // buffers are given back at any time: nothing is collected that the next figure would have to do without
  const stores: Array<ReturnType<typeof makeMemory>> = []
  const held = Effect.fnUntraced(function*(length: number) {
    const filler = "x".repeat(length - 8)
    const bytes = () => {
      globalThis.gc?.()
      const { arrayBuffers, heapUsed } = process.memoryUsage()
      return heapUsed + arrayBuffers
    }
    const settlement = { started: true, key: "keep", windowMillis: 300_000, value: undefined } as const
    const store = makeMemory({ maxKeys: count })
    stores.push(store)
    const before = bytes()
    for (let n = 0; n < count; n++) {
      const claim = {
        _tag: "Key",
        scope: "batch",
        principal: "ada",
        batch: "conversation",
        process: "main",
        wave: "w"
      } as const
      const key = JSON.stringify(String(n).padStart(6, "0") + filler)
      const call = {
        ...claim,
        tool: "read",
        key,
        endsWithWave: false,
        endsWithChange: true,
        ignoreOtherProcesses: false
      }
      const [reserved] = yield* store.reserve([{ owner: `call-${n}`, session: "s", claims: [call] }], 0)
      if (reserved !== undefined && "epoch" in reserved) yield* store.settle(reserved, settlement, 0)
    }
    const after = bytes() - before
    return after / count
  })
  yield* held(10)
  const what = "kept for dedupe of a call with arguments of"
  return [
    { what: `${what} 50 characters`, value: yield* held(50), unit: "bytes", bar: { of: "value", limit: 200 } },
    { what: `${what} 2,000 characters`, value: yield* held(2_000), unit: "bytes", bar: { of: "value", limit: 200 } }
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
