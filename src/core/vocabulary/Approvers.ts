/** Who approves the calls of a rule: named people and roles, how many of them, and who else after a time. */
import * as Schema from "effect/Schema"
import { millisOf } from "../../internal/interval.ts"

const names = Schema.Array(Schema.NonEmptyString)

/** A duration in words that need no library to be read. */
const Interval = Schema.String.check(
  Schema.makeFilter<string>(
    (text) => millisOf(text) !== undefined,
    { expected: "a duration such as \"15 minutes\", up to 365 days" }
  )
)

/**
 * Schema of who approves. Without `people` and `roles`, everybody who may answer the request.
 *
 * `count`: this many different people. `escalate`: after this time, these may answer as well. `remind`: approvers are
 * notified again in this interval. The user whose call it is counts only if `people` lists them, wherever `count` is
 * above 1 or `roles` are named.
 */
export const Approvers = Schema.Struct({
  /** Names of users. */
  people: Schema.optionalKey(names),
  /** People with one of these roles. */
  roles: Schema.optionalKey(names),
  count: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10 }))),
  escalate: Schema.optionalKey(Schema.Struct({
    after: Interval,
    to: Schema.Struct({ people: Schema.optionalKey(names), roles: Schema.optionalKey(names) })
  })),
  remind: Schema.optionalKey(Interval)
}).annotate({ identifier: "Approvers" })

/** Who approves. */
export type Approvers = typeof Approvers.Type

/** Schema of an approval by one person, of a call that may need others. */
export const GivenApproval = Schema.Struct({
  person: Schema.String,
  /** The roles that the person had then. */
  roles: Schema.optionalKey(names),
  /** Epoch milliseconds. */
  at: Schema.Finite,
  answer: Schema.Literals(["ApproveOnce", "ApproveForDuration", "ApproveForScope"]),
  duration: Schema.optionalKey(Schema.String),
  scope: Schema.optionalKey(
    Schema.Union([Schema.Literals(["resources", "tool"]), Schema.Struct({ pattern: Schema.String })])
  ),
  agents: Schema.optionalKey(Schema.Literals(["subtree", "all"])),
  note: Schema.optionalKey(Schema.String),
  data: Schema.optionalKey(Schema.Json)
}).annotate({ identifier: "GivenApproval" })

/** An approval by one person. */
export type GivenApproval = typeof GivenApproval.Type
