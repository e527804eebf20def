/**
 * What a check of a journal's hash chain finds: whether any entry was changed, removed or moved, and up to where.
 *
 * The hash of an entry covers all entries before it. Somebody who can rewrite the whole journal can also compute its
 * hashes again, which only a checkpoint reveals that is stored elsewhere.
 */
import * as Schema from "effect/Schema"

/** Schema of a checkpoint: the hash of everything up to a place of a journal. */
export const Checkpoint = Schema.Struct({
  v: Schema.Literal(1),
  /** Identifies the journal. */
  journal: Schema.String,
  place: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  chain: Schema.NonEmptyString,
  /** Epoch milliseconds at which it was made. */
  at: Schema.Finite
})

/** The hash of everything up to a place of a journal. */
export type Checkpoint = typeof Checkpoint.Type

/** Entries between two places, these included, that are not as they were written. */
export interface Finding {
  readonly from: number
  readonly to: number
  readonly problem: string
}

/** The result of a check. */
export interface Verified {
  /** Identifies the journal; empty for a copy without its key. */
  readonly journal: string
  /** Entries whose hashes are right. */
  readonly entries: number
  /** Entries that an earlier version wrote, without hashes. */
  readonly unchained: number
  /** Entries that `prune` removed. */
  readonly pruned: number
  /** The last hash; absent if there is none. */
  readonly head: { readonly place: number; readonly chain: string } | undefined
  /** How the entry of the checkpoint was compared with it. */
  readonly compared: Compared
  /** Empty: nothing was changed, removed or moved. */
  readonly findings: ReadonlyArray<Finding>
}

/**
 * How a journal compares with a checkpoint. `"follows"`: it begins right after the checkpoint, and earlier entries are
 * kept elsewhere. `"not compared"`: there is no checkpoint, or its entry is not there any more, so that the journal may
 * have been rewritten.
 */
export type Compared = "matches" | "differs" | "follows" | "not compared"

/** Says what is missing between two places. */
export const missing = (from: number, to: number): Finding => ({
  from,
  to,
  problem: from === to ? `entry ${from} is missing` : `entries ${from} to ${to} are missing`
})

/** Says that an entry is not as it was written. */
export const changed = (place: number): Finding => ({
  from: place,
  to: place,
  problem: `entry ${place} was changed, or an entry before it was replaced`
})

/** Says that a journal does not have the hash of a checkpoint. */
export const other = ({ place }: Checkpoint): Finding => ({
  from: 1,
  to: place,
  problem: `the entries up to ${place} are not those of the checkpoint: the journal was rewritten`
})
