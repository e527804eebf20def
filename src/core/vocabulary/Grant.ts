/** Standing permissions: what a person has allowed for longer than one call. */

import * as Schema from "effect/Schema"

/** Schema of a standing permission. */
export const Grant = Schema.Struct({
  id: Schema.String,
  principal: Schema.String,
  tool: Schema.String,
  /** What the tool said it was when it was allowed: it holds for no other of that name. */
  revision: Schema.optional(Schema.String),
  /** It holds for the agent of this path and its sub-agents; empty: for all. */
  agentPath: Schema.Array(Schema.String),
  /** The targets it is about, to the letter; absent: every call of the tool. */
  targets: Schema.optional(Schema.Array(Schema.String)),
  /** The answer that made it. */
  answer: Schema.Literals(["ApproveForDuration", "ApproveForScope"]),
  /** Epoch milliseconds. */
  grantedAt: Schema.Finite,
  /** Epoch milliseconds from which it does not hold any more; absent: until it is revoked. */
  expiresAt: Schema.optional(Schema.Finite)
})

/** A standing permission of one principal. */
export type Grant = typeof Grant.Type

/** What a person allowed: a standing permission, or one call alone, whose `id` is that of the request. */
export type Given = Omit<Grant, "answer"> & { readonly answer: Grant["answer"] | "ApproveOnce" }

/**
 * Tells whether a grant holds for a call about these targets: all of them, to the letter. Targets that are not known
 * are covered by a grant for the tool only.
 */
export const covers = (
  self: Grant,
  call: {
    readonly tool: string
    readonly revision?: string | undefined
    readonly agentPath: ReadonlyArray<string>
    readonly targets:
      | ReadonlyArray<
        { readonly text: string; readonly kind?: string | undefined; readonly runBy?: string | undefined }
      >
      | undefined
  },
  now: number
): boolean => {
  if (self.tool !== call.tool || self.revision !== call.revision || !isOpen(self, now)) return false
  if (!self.agentPath.every((name, depth) => call.agentPath[depth] === name)) return false
  const { targets } = self
  // a target that guards other things is covered only where it is named
  if (targets === undefined) {
    return call.targets?.every(({ kind, runBy }) => kind !== "protected" && runBy === undefined) === true
  }
  return call.targets !== undefined && call.targets.length > 0 &&
    call.targets.every(({ text }) => targets.includes(text))
}

/** Tells whether a grant has not expired. */
export const isOpen = ({ expiresAt }: Grant, now: number): boolean => expiresAt === undefined || now < expiresAt
