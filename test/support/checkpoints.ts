/** Writes that tests keep, to undo them. */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Checkpoints, type FileChange } from "../../src/index.ts"

/** A write over files of these contents. */
export const write = (
  before: Readonly<Record<string, FileChange.FileChange["before"]>>,
  options: Partial<Omit<Checkpoints.Write, "files">> = {}
): Checkpoints.Write => ({
  principal: "p",
  batch: "b",
  callId: "c",
  tool: "t",
  ...options,
  files: Object.entries(before).map(([path, content]) => ({ path, before: content, after: "after" }))
})

/** Keeps a write, and lets a millisecond go by. */
export const saveAt = (it: Checkpoints.Write): Effect.Effect<
  Checkpoints.Checkpoint,
  Checkpoints.CheckpointError,
  Checkpoints.Checkpoints
> => Effect.flatMap(Checkpoints.Checkpoints, ({ save }) => save(it)).pipe(Effect.tap(() => TestClock.adjust(1)))

export const idsOf = (checkpoints: ReadonlyArray<Checkpoints.Checkpoint>): ReadonlyArray<string> =>
  checkpoints.map(({ id }) => id)
