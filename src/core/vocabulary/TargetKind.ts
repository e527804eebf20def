/** What policies and grants make of a target besides its text. */
import * as Schema from "effect/Schema"

/**
 * Schema of the kind of a target. `exact`: the text may mean more than it says (a shell line), so only a pattern for
 * the whole tool allows it. `protected`: it guards other things (`.git`, the executor's own files), so no pattern allows
 * it. `always`: approval is requested each time, whatever is allowed and was approved before. `host`: a host that a
 * running call wants to reach, so only a pattern or a grant that names it allows it. Any pattern can deny all of them.
 */
export const TargetKind = Schema.Literals(["exact", "protected", "always", "host"])

export type TargetKind = typeof TargetKind.Type

/** Tells whether a grant for the whole tool covers targets of the kind. */
export const isCoveredByTool = (kind: string | undefined): boolean => kind === undefined || kind === "exact"
