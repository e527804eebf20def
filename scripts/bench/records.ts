// What records cost: beside the same calls without a journal, or with everything in memory.
import { Effect } from "effect"
import { Journal } from "effect-tool-executor"
import { compare } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const { open, ours, plenty } = Subject

export const recorded = Effect.gen(function*() {
  const plain = yield* open(plenty)
  const journal = yield* open(plenty, undefined, Journal.layerMemory())
  const [value, beside] = yield* Effect.promise(() =>
    compare([ours(journal, "read", 1_000), ours(plain, "read", 1_000)])
  )
  return [
    {
      what: "1,000 reads with the journal in memory",
      value,
      beside,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.3, aim: 1.15 }
    }
  ] satisfies ReadonlyArray<Line>
})
