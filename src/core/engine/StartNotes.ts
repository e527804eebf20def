/**
 * What is noted of a call right before it starts: that it may change things. Whoever undoes something is told of calls
 * that do not say which files they change, and the journal has every call.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as ToolAnnotations from "../vocabulary/ToolAnnotations.ts"
import type { Call } from "./Call.ts"
import { refused } from "./CallEnd.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Notes a call that may change things and is about to start. Where the journal cannot be written the call is refused,
 * and does not start.
 */
export const note = (wave: WaveState, call: Call): Effect.Effect<void> => {
  const kept = keep(wave, call)
  return wave.engine.journal === undefined ? kept : Effect.flatMapEager(kept, () => record(wave, call))
}

/** Takes back the note of a call that did not run, was refused its write, or has told all that it writes. */
export const takeBack = (
  { engine: { checkpoints } }: WaveState,
  { outcome, undo: { isCheckpointed, isUnannounced, note } }: Call
): Effect.Effect<void> => {
  if (checkpoints === undefined || note === undefined) return Effect.void
  const isRefused = outcome?._tag === "Denied" && outcome.reason._tag === "WriteDenied" && outcome.commits === 0
  const isTold = isCheckpointed === true && isUnannounced !== true
  return outcome?.startedAt !== undefined && !isRefused && !isTold
    ? Effect.void
    : Effect.ignore(Effect.suspend(() => checkpoints.forget(note)))
}

// Utilities

/**
 * Keeps that a call is about to change things without saying which files. Where the call has its outcome meanwhile,
 * that is taken back.
 */
const keep = (wave: WaveState, call: Call): Effect.Effect<void> => {
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

/** Whether it may change files without saying which: where none can be undone, nobody has to know. */
const mayChangeFiles = ({ engine: { handlers } }: WaveState, { tool }: Call): boolean => {
  const said = Context.get(tool!.annotations, ToolAnnotations.ChangesFiles)
  if (said !== undefined) return said
  for (const { preview } of handlers.current().values()) if (preview !== undefined) return true
  return false
}

/** Puts a call on record. It is never there at once, so that the call is looked at once more. */
const record = (wave: WaveState, call: Call): Effect.Effect<void> =>
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
