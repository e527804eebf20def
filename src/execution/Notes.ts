/**
 * Notes about calls that change things without saying which files: they cannot be
 * undone, and whoever undoes something is told.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Call } from "./Call.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Notes a call that is about to change things without saying which files. Where
 * the call has its outcome meanwhile, the note is taken back.
 *
 * @category writing
 * @since 0.1.0
 */
export const note = (wave: WaveState, call: Call): Effect.Effect<void> => {
  const { checkpoints, principal } = wave.engine
  const { name, preview, readOnly, recursive } = call.tool!
  if (checkpoints === undefined || readOnly || recursive || preview !== undefined) return Effect.void
  const write = { principal, batch: wave.process.batch.id, callId: call.call.id, tool: name, files: [] }
  const noted = Effect.flatMap(Effect.suspend(() => checkpoints.save(write)), (it) => {
    call.note = it
    return call.isSettled ? takeBack(wave, call) : Effect.void
  })
  return Effect.uninterruptible(Effect.ignore(noted))
}

/**
 * Takes the note of a call back that did not run, was refused its write, or has
 * said all that it writes.
 *
 * @category writing
 * @since 0.1.0
 */
export const takeBack = (
  { engine: { checkpoints } }: WaveState,
  { isCheckpointed, isUnannounced, note, outcome }: Call
): Effect.Effect<void> => {
  if (checkpoints === undefined || note === undefined) return Effect.void
  const isRefused = outcome?._tag === "Denied" && outcome.reason._tag === "WriteDenied" && outcome.commits === 0
  const isTold = isCheckpointed === true && isUnannounced !== true
  return outcome?.startedAt !== undefined && !isRefused && !isTold
    ? Effect.void
    : Effect.ignore(Effect.suspend(() => checkpoints.forget(note)))
}
