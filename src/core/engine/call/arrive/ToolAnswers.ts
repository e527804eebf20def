/** What tools say about a call before it runs, read so that a faulty tool cannot block or break it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Detached from "../../../../internal/detached.ts"
import { TargetKind } from "../../../vocabulary/TargetKind.ts"
import type * as ToolAnnotations from "../../../vocabulary/ToolAnnotations.ts"
import type { RegisteredTool } from "../../../vocabulary/ToolHandlers.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"

/**
 * Milliseconds for decoding, or for finding what a call touches; at most what is left of the call's limit and the turn.
 */
export const patience = (wave: WaveHost, tool: RegisteredTool): number =>
  Math.min(10_000, wave.limitOf(tool), Math.max(0, wave.process.budget.left(wave.now())))

/**
 * Limit for the characters of all spellings of a call's targets: they are matched against what denies or needs
 * approval.
 */
const maxSpelled = 500_000

const isKind = Schema.is(TargetKind)

/** Reads the targets that a tool declares; `undefined` if they are malformed. They may come from untyped code. */
export const readTargets = (answer: unknown): ToolAnnotations.TargetsOf | undefined => {
  if (!Array.isArray(answer)) return undefined
  const targets: Array<ToolAnnotations.TargetsOf[number]> = []
  let chars = 0
  for (const it of answer) {
    if (!Predicate.hasProperty(it, "text")) return undefined
    const { text } = it
    const kind = Predicate.hasProperty(it, "kind") ? it.kind : undefined
    const runBy = Predicate.hasProperty(it, "runBy") ? it.runBy : undefined
    const written = Predicate.hasProperty(it, "spellings") ? it.spellings : undefined
    const spellings = written === undefined ? undefined : readKeys(written)
    const wide = Predicate.hasProperty(it, "wider") ? it.wider : undefined
    const wider = wide === undefined ? undefined : readKeys(wide)
    const isRight = typeof text === "string" && (kind === undefined || isKind(kind)) &&
      (runBy === undefined || typeof runBy === "string") && (written === undefined || spellings !== undefined) &&
      (wide === undefined || wider !== undefined)
    if (!isRight) return undefined
    chars = spellings?.reduce((sum, it) => sum + it.length, chars) ?? chars
    if (chars > maxSpelled) return undefined
    targets.push({
      text,
      ...(kind === undefined ? {} : { kind }),
      ...(runBy === undefined ? {} : { runBy }),
      ...(spellings === undefined ? {} : { spellings }),
      ...(wider === undefined ? {} : { wider })
    })
  }
  return targets
}

/** Reads a list of keys; `undefined` if it is malformed. */
export const readKeys = (answer: unknown): ReadonlyArray<string> | undefined => {
  const keys: ReadonlyArray<unknown> | undefined = Array.isArray(answer) ? Array.from(answer) : undefined
  return keys?.every(Predicate.isString) ? keys : undefined
}

/** Gives what a tool says about a call; `undefined` if it fails, throws, times out or is malformed. */
export const lookUp = <B, A>(
  wave: WaveHost,
  tool: RegisteredTool,
  question: () => B | Effect.Effect<B>,
  read: (answer: unknown) => A | undefined
): Effect.Effect<A | undefined> => {
  const found = attempt(question)
  const answer = (exit: Exit.Exit<unknown, unknown> | undefined): A | undefined =>
    exit !== undefined && Exit.isSuccess(exit) ? attempt(() => read(exit.value)) : undefined
  if (!Effect.isEffect(found)) return Effect.succeed(attempt(() => read(found)))
  if (Exit.isExit(found)) return Effect.succeed(answer(found))
  return Effect.map(Detached.within(found, patience(wave, tool)), answer)
}

/** Gives the resource keys of a call. If they cannot be determined, calls of the tool exclude each other. */
export const resources = (wave: WaveHost, call: Call): Effect.Effect<ReadonlyArray<string>> => {
  const tool = call.tool!
  if (tool.class === "ReadOnly") return noKeys
  return Effect.mapEager(
    lookUp(wave, tool, () => tool.resources(call.gateCall!.params), readKeys),
    (keys) => keys ?? [`?${tool.name}`]
  )
}

const noKeys: Effect.Effect<ReadonlyArray<string>> = Effect.succeed([])

const attempt = <A>(run: () => A): A | undefined => {
  try {
    return run()
  } catch {
    return undefined
  }
}
