/**
 * What is recorded right before a call starts. Checkpoints list calls that may change files without announcing which;
 * the journal lists every call.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as ToolAnnotations from "../../../vocabulary/ToolAnnotations.ts"
import { refused } from "../../data/CallEnd.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"

/**
 * Records a call that is about to start and may change things. If the journal cannot be written, the call is refused.
 */
export const note = (wave: WaveHost, call: Call): Effect.Effect<void> => {
  const kept = keep(wave, call)
  return wave.engine.journal === undefined ? kept : Effect.flatMapEager(kept, () => record(wave, call))
}

/** Removes the checkpoint note of a call that did not run, was refused its write, or announced all its writes. */
export const takeBack = (
  { engine: { checkpoints } }: WaveHost,
  { outcome, undo: { isCheckpointed, isUnannounced, note } }: Call
): Effect.Effect<void> => {
  if (checkpoints === undefined || note === undefined) return Effect.void
  const isRefused = outcome?._tag === "Denied" && outcome.reason._tag === "WriteDenied" && outcome.commits === 0
  const isTold = isCheckpointed === true && isUnannounced !== true
  return outcome?.startedAt !== undefined && !isRefused && !isTold
    ? Effect.void
    : Effect.ignore(Effect.suspend(() => checkpoints.forget(note)))
}

/** Saves that a call may change files without announcing which. Removed again if the call has its outcome by then. */
const keep = (wave: WaveHost, call: Call): Effect.Effect<void> => {
  const { checkpoints, principal } = wave.engine
  const { name, preview, recursive } = call.tool!
  if (checkpoints === undefined || recursive || preview !== undefined || !mayChangeFiles(wave, call)) return Effect.void
  const write = { principal, batch: wave.process.batch.id, callId: call.call.id, tool: name, files: [] }
  const noted = Effect.flatMap(Effect.suspend(() => checkpoints.save(write)), (it) => {
    call.undo = { ...call.undo, note: it }
    return call.isSettled ? takeBack(wave, call) : Effect.void
  })
  return Effect.uninterruptible(Effect.ignore(noted))
}

/** Whether it may change unannounced files. Without any tool that can be undone, no note is needed. */
const mayChangeFiles = ({ engine: { handlers } }: WaveHost, { tool }: Call): boolean => {
  const said = Context.get(tool!.annotations, ToolAnnotations.ChangesFiles)
  if (said !== undefined) return said
  for (const { preview } of handlers.current().values()) if (preview !== undefined) return true
  return false
}

/** Writes the start of a call to the journal. Never immediate, so the call is always checked again. */
const record = (wave: WaveHost, call: Call): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { record, tool } = call
    if (record === undefined) return Effect.void
    const now = wave.now()
    const { millis } = wave.process.budget.limit(wave.limitOf(tool!), now)
    return Effect.map(wave.reporter.write(call.start("Starting", now, 1, millis), record), (isWritten) => {
      if (isWritten) wave.tally.isWritten = true
      else call.decided ??= refused({ _tag: "StoreUnavailable", operation: "journal" })
    })
  })
