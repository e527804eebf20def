/**
 * An executor over a PostgreSQL that others use, too, as a process of its own. It
 * prints a line for each call that started, with the milliseconds between which its
 * handler ran, and for each outcome; a line of its own input begins what it does.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { ToolContext } from "effect-tool-executor"
import { SqlStateStore } from "effect-tool-executor/sql"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { once } from "node:events"
import * as StateStore from "../../src/core/store/StateStore.ts"
import { ToolCall, type ToolOutcome, type ToolRule } from "../../src/index.ts"
import { open, type ToolSpec } from "./Harness.ts"

/** What a worker does. */
export type Work =
  /** Waves against every limit that a store holds, one wave per batch. */
  | { readonly _tag: "Limits"; readonly waves: number; readonly calls: number }
  /** One call at a time, of which only one may run anywhere; each writes for as long as it runs. */
  | { readonly _tag: "Alone"; readonly calls: number; readonly millis: number }

export interface Options {
  readonly url: string
  readonly work: Work
  readonly lease: string
}

/** What a worker tells. */
export type Line =
  | { readonly _tag: "Ready" }
  | {
    readonly _tag: "Ran"
    readonly batch: string
    readonly tool: string
    readonly key: string
    readonly at: number
    readonly until: number
  }
  | { readonly _tag: "Wrote"; readonly call: string; readonly at: number }
  | { readonly _tag: "Ended"; readonly batch: string; readonly outcomes: Readonly<Record<string, number>> }

const { lease, url, work } = JSON.parse(process.argv[2]!) as Options

const print = (line: Line) => void process.stdout.write(`${JSON.stringify(line)}\n`)

const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "MaxCalls", tool: "limited", max: 7 },
  { _tag: "ExclusiveGroup", tools: ["left", "right"] },
  { _tag: "Cooldown", tool: "rests", duration: "20 millis" },
  { _tag: "Cooldown", tool: "alone", duration: "1 millis" },
  { _tag: "NeverDedupe", tool: "rests" },
  { _tag: "NeverDedupe", tool: "alone" }
]

const ran = (tool: string): ToolSpec => ({
  class: "ConcurrentMut",
  handler: ({ n }) =>
    Effect.gen(function*() {
      const at = Date.now()
      yield* Effect.sleep(1)
      const { batch = "" } = yield* ToolContext.ToolContext
      print({ _tag: "Ran", batch, tool, key: String(n), at, until: Date.now() })
    })
})

/** A handler that writes through its context, and so not once it is too late. */
const writes: ToolSpec = {
  class: "SerialMut",
  handler: () =>
    Effect.gen(function*() {
      const context = yield* ToolContext.ToolContext
      const call = `${process.pid} ${context.callId}`
      // as of when it decides to: what is on its way when a process is stopped, nobody can call back
      const write = Effect.suspend(() => {
        const at = Date.now()
        return context.commit(Effect.sync(() => print({ _tag: "Wrote", call, at })))
      })
      for (let left = work._tag === "Alone" ? work.millis : 0; left > 0; left -= 5) {
        yield* write
        yield* Effect.sleep(5)
      }
    })
}

const counted = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Readonly<Record<string, number>> => {
  const counts = new Map<string, number>()
  for (const it of outcomes) {
    const name = it._tag === "Denied" ? it.reason._tag : it._tag
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return Object.fromEntries(counts)
}

/** The calls of a wave: of each tool more than may start. */
const callsOf = (count: number) =>
  Array.from({ length: count }, (_, n) => {
    const tool = n % 50 === 0
      ? "rests"
      : n % 5 === 0
      ? "limited"
      : n % 5 === 1
      ? "left"
      : n % 5 === 2
      ? "right"
      : "equal"
    return ToolCall.make(`${process.pid}-${n}`, tool, { n: tool === "equal" ? n % 7 : n })
  })

const program = Effect.gen(function*() {
  const store = yield* StateStore.StateStore
  const tools = {
    limited: ran("limited"),
    left: ran("left"),
    right: ran("right"),
    equal: ran("equal"),
    rests: ran("rests"),
    alone: writes
  }
  const { executor } = yield* open(tools, { store, rules, mode: work._tag === "Limits" ? "parallel" : "classes" })
  print({ _tag: "Ready" })
  yield* Effect.promise(() => once(process.stdin, "data"))
  process.stdin.unref()
  const count = work._tag === "Limits" ? work.waves : work.calls
  for (let n = 0; n < count; n++) {
    const id = work._tag === "Limits" ? `batch-${n}` : "batch"
    const batch = yield* executor.batch(id)
    const process = yield* batch.process()
    const calls = work._tag === "Limits" ? callsOf(work.calls) : [ToolCall.make(`call-${n}`, "alone", {})]
    const { outcomes } = yield* process.executeWave(calls)
    print({ _tag: "Ended", batch: id, outcomes: counted(outcomes) })
    if (work._tag === "Alone") yield* Effect.sleep(2)
  }
  // without closing its batches: whoever closes one forgets it for all
  process.stdout.write("", () => process.exit(0))
  return yield* Effect.never
}).pipe(
  Effect.scoped,
  Effect.provide(
    SqlStateStore.layer({ lease: lease as "1 second" }).pipe(
      Layer.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 4 }))
    )
  )
)

await Effect.runPromise(program)
