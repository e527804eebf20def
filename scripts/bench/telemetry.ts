// What spans and metrics of calls cost: nothing where nobody asks for them, and next to one span per call by hand.
import { Effect } from "effect"
import { compare } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const { byHand, open, ours, plenty, side } = Subject

/** What somebody writes round each call who has no executor. */
const span = <A, E>(one: Effect.Effect<A, E>, { id, name }: { readonly id: string; readonly name: string }) =>
  Effect.withSpan(one, `execute_tool ${name}`, {
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": id,
      "gen_ai.tool.type": "function"
    },
    captureStackTrace: false
  })

/** Waves under a span of the caller. */
const traced = (process: Parameters<typeof ours>[0]) =>
  side(
    () => Subject.call("read"),
    (calls) => Effect.runPromise(Effect.withSpan(process.executeWave(calls), "agent")),
    1_000
  )

export const telemetry = Effect.gen(function*() {
  const [auto, off] = [yield* open(plenty), yield* open(plenty, { telemetry: "off" })]
  const [asked, unasked, none, spanned, plain] = yield* Effect.promise(() =>
    compare([
      traced(auto),
      ours(auto, "read", 1_000),
      ours(off, "read", 1_000),
      byHand(plenty, "read", 1_000, 1, span),
      byHand(plenty, "read", 1_000)
    ])
  )
  return [
    {
      what: "telemetry layer without an exporter vs none",
      value: unasked,
      peer: none,
      unit: "µs/call",
      bar: { of: "ratio", limit: 1.05 }
    },
    {
      what: "spans and metrics on vs one span by hand",
      value: asked - unasked,
      peer: spanned - plain,
      unit: "µs/call",
      bar: { of: "ratio", limit: 2 }
    }
  ] satisfies ReadonlyArray<Line>
})
