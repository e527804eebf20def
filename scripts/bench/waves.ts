// What a call costs next to the same work by hand: alone, in a wave, with a limit, where the handler waits.
import { Effect } from "effect"
import { compare } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const { byHand, open, ours, plenty } = Subject

/** A wave of one call: 64 of them, one after another, are one run. */
export const single = Effect.gen(function*() {
  const process = yield* open(plenty)
  const [value, peer] = yield* Effect.promise(() =>
    compare([ours(process, "read", 1, 64), byHand(plenty, "read", 1, 64)])
  )
  return [
    { what: "a single call, its own wave", value, peer, unit: "µs", bar: { of: "ratio", limit: 2.2 } }
  ] satisfies ReadonlyArray<Line>
})

export const wave = Effect.gen(function*() {
  const [process, bare] = [yield* open(plenty), yield* open(plenty, { dedupe: false })]
  const [value, without, peer] = yield* Effect.promise(() =>
    compare([ours(process, "read", 1_000), ours(bare, "read", 1_000), byHand(plenty, "read", 1_000)])
  )
  return [
    {
      what: "a wave of 1,000 reads that do nothing",
      value,
      peer,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.3 }
    },
    {
      what: "the same without dedupe",
      value: without,
      peer,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1 }
    }
  ] satisfies ReadonlyArray<Line>
})

export const limited = Effect.gen(function*() {
  const process = yield* open(64)
  const [value, peer] = yield* Effect.promise(() => compare([ours(process, "read", 1_000), byHand(64, "read", 1_000)]))
  return [
    {
      what: "a wave of 1,000, 64 at once, 30 s each",
      value,
      peer,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.35 }
    }
  ] satisfies ReadonlyArray<Line>
})

export const waiting = Effect.gen(function*() {
  const [process, narrow] = [yield* open(plenty), yield* open(64)]
  const wave = (permits: number, of: typeof process) =>
    Effect.promise(() => compare([ours(of, "waiting", 1_000), byHand(permits, "waiting", 1_000)]))
  const [value, peer] = yield* wave(plenty, process)
  const [limitedValue, limitedPeer] = yield* wave(64, narrow)
  return [
    {
      what: "1,000 calls that wait for 5 ms",
      value,
      peer,
      unit: "ms/wave",
      bar: { of: "ratio", limit: 1 }
    },
    { what: "the same, 64 at once", value: limitedValue, peer: limitedPeer, unit: "ms/wave" }
  ] satisfies ReadonlyArray<Line>
})

export const yielding = Effect.gen(function*() {
  const [process, wide] = [yield* open(20), yield* open(plenty)]
  const wave = (permits: number, of: typeof process) =>
    Effect.promise(() => compare([ours(of, "yielding", 1_000), byHand(permits, "yielding", 1_000)]))
  const [value, peer] = yield* wave(20, process)
  const [wideValue, widePeer] = yield* wave(plenty, wide)
  return [
    {
      what: "handlers that yield once, 20 at once",
      value,
      peer,
      unit: "µs/call",
      bar: { of: "ratio", limit: 0.5 }
    },
    { what: "the same, no limit", value: wideValue, peer: widePeer, unit: "µs/call" }
  ] satisfies ReadonlyArray<Line>
})

export const growth = Effect.gen(function*() {
  const process = yield* open(plenty)
  const sizes = [10, 100, 1_000, 10_000] as const
  const values = yield* Effect.promise(() =>
    compare(sizes.map((size) => ours(process, "read", size, Math.max(1, 1_000 / size))))
  )
  const [, peer, , value] = values
  return [
    ...sizes.map((size, index) => ({
      what: `a wave of ${size.toLocaleString("en-US")}`,
      value: values[index]!,
      unit: "µs/call"
    })),
    {
      what: "a call in a wave of 10,000 vs one of 100",
      value: value!,
      peer: peer!,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.15 }
    }
  ] satisfies ReadonlyArray<Line>
})

/** One permit: each call waits for the one before it. */
export const capped = Effect.gen(function*() {
  const process = yield* open(plenty)
  const [peer, value] = yield* Effect.promise(() =>
    compare([ours(process, "capped", 1_000), ours(process, "capped", 10_000)])
  )
  return [
    { what: "a call of a tool that runs alone, 10,000 vs 1,000", value, peer, unit: "µs/call" }
  ] satisfies ReadonlyArray<Line>
})
