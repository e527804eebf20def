/**
 * What every gate sees of a call, and what it may answer.
 *
 * A gate admits (`undefined`), refuses (a `ToolRefusal`), or adds claims that
 * are reserved together (`StateStore.reserve`) and settled with the outcome.
 *
 * @since 0.1.0
 */
import type { ToolCall } from "../ToolCall.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { Target } from "./PermissionPattern.ts"

/**
 * A call as the gates see it: its tool is known and its parameters are decoded.
 *
 * @category models
 * @since 0.1.0
 */
export interface GateCall {
  readonly call: ToolCall
  readonly tool: RegisteredTool
  /** The arguments as they were decoded: control arguments out, the host's own in. */
  readonly args: unknown
  /** Decoded parameters. */
  readonly params: unknown
  /**
   * What the call is about, where the policy asks for it; `undefined` if that
   * could not be found out.
   */
  readonly targets: ReadonlyArray<Target> | undefined
  /** The tool itself wants a person to allow this call (`needsApproval`). */
  readonly needsApproval: boolean
  readonly principal: string
  /** Names of the sub-agents from the root down to the one that calls. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
}

/**
 * What a gate answers: nothing, or why the call may not run.
 *
 * @category models
 * @since 0.1.0
 */
export type Verdict = ToolRefusal | undefined

/**
 * What a gate says; one that throws has not let the call pass.
 *
 * @category gates
 * @since 0.1.0
 */
export const orRefused = <A>(gate: string, say: () => A): A | ToolRefusal => {
  try {
    return say()
  } catch {
    return { _tag: "GuardRejected", guard: gate, reason: "it failed" }
  }
}
