/**
 * Standing permissions: what a person has allowed for longer than one call.
 *
 * @since 0.1.0
 */

/**
 * A standing permission of one principal.
 *
 * @category models
 * @since 0.1.0
 */
export interface Grant {
  readonly id: string
  readonly principal: string
  readonly tool: string
  /** It holds for the agent of this path and its sub-agents; empty: for all. */
  readonly agentPath: ReadonlyArray<string>
  /** The targets it is about, to the letter; absent: every call of the tool. */
  readonly targets?: ReadonlyArray<string> | undefined
  /** The answer that made it. */
  readonly answer: "ApproveForDuration" | "ApproveForScope"
  /** Epoch milliseconds. */
  readonly grantedAt: number
  /** Epoch milliseconds from which it does not hold any more; absent: until it is revoked. */
  readonly expiresAt?: number | undefined
}

/**
 * Tells whether a grant holds for a call about these targets: all of them, to
 * the letter. Targets that are not known are covered by a grant for the tool only.
 *
 * @category predicates
 * @since 0.1.0
 */
export const covers = (
  self: Grant,
  call: {
    readonly tool: string
    readonly agentPath: ReadonlyArray<string>
    readonly targets: ReadonlyArray<{ readonly text: string; readonly kind?: string | undefined }> | undefined
  },
  now: number
): boolean => {
  if (self.tool !== call.tool || !isOpen(self, now)) return false
  if (!self.agentPath.every((name, depth) => call.agentPath[depth] === name)) return false
  const { targets } = self
  // what guards other things is only covered by its name
  if (targets === undefined) return call.targets?.some(({ kind }) => kind === "protected") !== true
  return call.targets !== undefined && call.targets.length > 0 &&
    call.targets.every(({ text }) => targets.includes(text))
}

/**
 * Tells whether a grant has not expired.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isOpen = ({ expiresAt }: Grant, now: number): boolean => expiresAt === undefined || now < expiresAt
