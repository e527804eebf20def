/** What a reviewer is shown of a call. */
import type { Evidence } from "../facts/Evidence.ts"

/** A call that needs approval, as a reviewer sees it: without values that its tool declares secret. */
export interface ReviewRequest {
  readonly tool: string
  readonly description?: string | undefined
  /** The encoded arguments. */
  readonly args: unknown
  /** What the call touches, as far as the tool says. */
  readonly targets: ReadonlyArray<{ readonly text: string; readonly kind?: string | undefined }>
  /** Why approval is needed. */
  readonly why: string
  /** What the call would write, as a unified diff, or why that is unknown. */
  readonly preview?: { readonly diff: string } | { readonly missing: string } | undefined
  /** What else approvers see of the call. */
  readonly evidence: ReadonlyArray<Evidence>
  /** The user's own words in the conversation, oldest first; empty if they are unknown. */
  readonly words: ReadonlyArray<string>
  /** Names of the sub-agents from the root down to the one that calls; empty: the root itself. */
  readonly agentPath: ReadonlyArray<string>
  /** The call is already running and waits with a write. */
  readonly isRunning: boolean
}
