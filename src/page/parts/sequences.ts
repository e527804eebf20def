/**
 * Compares two sequences: which runs are equal, and which replaced which. Its work is bounded. Past the bound the
 * result is coarser (longer runs are marked as replaced), never wrong. Pure.
 */
import { diffWith } from "effect/TextDiff"

/** `count` items that both have, or `removed` items of the one in place of `added` items of the other. */
export type Stretch =
  | { readonly kind: "same"; readonly count: number }
  | { readonly kind: "replaced"; readonly removed: number; readonly added: number }

/** The result; `isCoarse`: some items may be marked as replaced that are in both. */
export interface Compared {
  readonly stretches: ReadonlyArray<Stretch>
  readonly isCoarse: boolean
}

/** About how many steps a comparison may take: some tenths of a second. */
const maxSteps = 20_000_000

/** Compares two sequences. */
export const compare = <A extends string | number>(before: ReadonlyArray<A>, after: ReadonlyArray<A>): Compared => {
  // the most edits up to which the result is exact
  const maxEdits = Math.ceil(maxSteps / (before.length + after.length + 1))
  const stretches: Array<Stretch> = []
  let edits = 0
  let removed = 0
  for (const { _tag, items } of differ(before, after, { maxEdits })) {
    if (_tag === "Delete") {
      removed = items.length
      stretches.push({ kind: "replaced", removed, added: 0 })
    } else if (_tag === "Equal") {
      stretches.push({ kind: "same", count: items.length })
      removed = 0
    } else {
      if (removed > 0) stretches.pop()
      stretches.push({ kind: "replaced", removed, added: items.length })
      removed = 0
    }
    if (_tag !== "Equal") edits += items.length
  }
  return { stretches, isCoarse: edits > maxEdits }
}

const differ = diffWith<string | number>((one, other) => one === other)
