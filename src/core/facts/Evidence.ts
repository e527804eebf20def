/** What approvers see of a call besides the call itself, as one closed union. `EvidenceText` says each in a sentence. */
import * as Schema from "effect/Schema"

/** Where a value of the arguments comes from, as far as it can be proved. */
export const Origin = Schema.TaggedStruct("Origin", {
  /** Path of the value in the arguments. */
  path: Schema.String,
  value: Schema.String,
  /** The strongest origin that can be proved. */
  origin: Schema.Literals(["user", "named", "listed", "model", "untrusted"]),
  /** Where it was found, such as `the output of call 3 (fetch_url)`. */
  from: Schema.optionalKey(Schema.String)
})

/** The call would run in a sandbox, with what really holds. */
export const Sandboxed = Schema.TaggedStruct("Sandboxed", {
  driver: Schema.String,
  network: Schema.Literals(["none", "listed", "open"]),
  /** What a probe proved. */
  holds: Schema.Array(Schema.String),
  /** What this system cannot enforce. */
  missing: Schema.Array(Schema.String)
})

/** A reviewer judged the call before people. */
export const Reviewed = Schema.TaggedStruct("Reviewed", {
  verdict: Schema.Literals(["allow", "ask", "deny"]),
  reason: Schema.String,
  model: Schema.optionalKey(Schema.String)
})

/** A text contains characters that people do not see. */
export const Unseen = Schema.TaggedStruct("Unseen", {
  where: Schema.String,
  /** How many there are. */
  characters: Schema.Finite,
  /** What they spell, if they spell something. */
  text: Schema.optionalKey(Schema.String)
})

/** Schema of what approvers see of a call besides the call itself. */
export const Evidence = Schema.Union([Origin, Sandboxed, Reviewed, Unseen]).annotate({ identifier: "Evidence" })

/** What approvers see of a call besides the call itself. */
export type Evidence = typeof Evidence.Type
