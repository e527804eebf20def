/** Who approves the calls of a rule: named people and roles, how many of them, and who else after a time. */
import * as Schema from "effect/Schema"

const names = Schema.optionalKey(Schema.Array(Schema.NonEmptyString))

/** A duration, such as `15 minutes`. */
const duration = Schema.NonEmptyString

/**
 * Schema of who approves. Without `people` and `roles`, everybody who may answer the request.
 *
 * `count`: this many different people. `escalate`: after this time, others may answer as well. `remind`: approvers are
 * notified again in this interval.
 */
export const Approvers = Schema.Struct({
  /** Names of users. */
  people: names,
  /** People with one of these roles. */
  roles: names,
  count: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10 }))),
  escalate: Schema.optionalKey(Schema.Struct({ after: duration, to: Schema.Struct({ people: names, roles: names }) })),
  remind: Schema.optionalKey(duration)
}).annotate({ identifier: "Approvers" })

/** Who approves. */
export type Approvers = typeof Approvers.Type

/** Schema of an approval that a person has given while others are still needed. */
export const GivenApproval = Schema.Struct({
  person: Schema.String,
  /** Epoch milliseconds. */
  at: Schema.Finite,
  note: Schema.optionalKey(Schema.String)
})

/** An approval that a person has given while others are still needed. */
export type GivenApproval = typeof GivenApproval.Type
