/** Calls of a journal, for the commands that decide them again. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Calls from "../../core/store/JournalCalls.ts"
import type { Registry } from "../../core/vocabulary/ToolHandlers.ts"
import type * as PolicyReplay from "../../policy/PolicyReplay.ts"
import * as RecordedCalls from "../../policy/RecordedCalls.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyCalls from "./PolicyCalls.ts"
import * as PolicyTools from "./PolicyTools.ts"

/** Reads the calls of a journal since a time. */
export const read = Effect.fnUntraced(function*(at: string, since: number | undefined) {
  const { read } = yield* JournalAt.open(at)
  const entries = yield* Effect.mapError(
    Stream.runCollect(read({ since })),
    (error) => JournalAt.unusable(at, error)
  )
  return Calls.callsOf(entries.map(({ entry }) => entry)).flatMap((it) => RecordedCalls.of(it) ?? [])
})

/** A number of days, in milliseconds. */
export const days = (count: number): number => Duration.toMillis(Duration.days(count))

/** Finds out what is known of the tools of recorded calls, and their targets where the tool computes them. */
export const known = Effect.fnUntraced(function*(calls: ReadonlyArray<RecordedCalls.Recorded>, registry: Registry) {
  const tools = new Map(PolicyTools.of(registry).map((it) => [it.subject.name, it]))
  const computed = new Map(
    yield* Effect.forEach(calls, (call) => {
      const tool = registry.get(call.tool)
      return Effect.map(
        tool === undefined || call.args._tag !== "Full" || !tool.declaresTargets
          ? Effect.succeed(tool?.declaresTargets === false ? [] : undefined)
          : PolicyCalls.targetsOf(tool, call.args.value),
        (targets) => [call, targets] as const
      )
    })
  )
  const found: PolicyReplay.Known = { tool: (name) => tools.get(name), targets: (call) => computed.get(call) }
  return found
})
