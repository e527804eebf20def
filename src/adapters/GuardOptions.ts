/** Options of a guard, and what it gives a program without Effect. */
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import type * as ToolEvent from "../core/facts/ToolEvent.ts"
import type * as Approvals from "../core/gates/Approvals.ts"
import type * as Dedupe from "../core/gates/Dedupe.ts"
import type * as Policy from "../core/gates/Policy.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import { type Problem, unknownKey } from "../core/vocabulary/ConfigurationError.ts"
import type { Declared } from "./PlainTool.ts"

/** A host's answer to an approval request: `true` approves this call, `false` denies it. */
export type Approval = boolean | Approvals.Answer

/** Options of a guard. Every field is plain data or a plain function, and every field has a safe default. */
export interface Options<Name extends string = string> {
  /**
   * Which calls run, need approval or are denied: `{ allow: ["search"], ask: ["refund"] }`. Default: tools that are
   * `readOnly` run, and all others need approval.
   */
  readonly policy?: Policy.Policy | undefined
  /** Order, counts, cooldowns and required tools. Default: none. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /** Settings by tool name, such as `{ search: { readOnly: true, timeout: "10 seconds" } }`. */
  readonly tools?: { readonly [N in Name]?: Declared | undefined } | undefined
  /**
   * Who answers approval requests: a function, or `"loop"` for the approval flow of the loop itself. Default: no approver,
   * so calls that need approval are denied. The signal aborts when the request ends without the function's answer.
   */
  readonly approvals?:
    | "loop"
    | ((request: Approvals.ApprovalRequest, signal: AbortSignal) => Approval | PromiseLike<Approval>)
    | undefined
  /** How long an approval request stays pending. Default 300 seconds. */
  readonly approvalTimeout?: Duration.Input | undefined
  /** How long a call may run if its tool sets no timeout. Default 120 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** Calls and time of one request. Default: no limit. */
  readonly limits?: { readonly calls?: number | undefined; readonly time?: Duration.Input | undefined } | undefined
  /**
   * Whether equal calls are refused, replayed or joined; `false` lets them run. Default: refused within one message of
   * the model (scope `"wave"`).
   */
  readonly dedupe?: Dedupe.Options | false | undefined
  /** How many calls run in parallel, over all requests. Default: 20 reads, 10 concurrent writers, 1 serial writer. */
  readonly concurrency?: {
    readonly read?: number | undefined
    readonly concurrent?: number | undefined
    readonly serial?: number | undefined
  } | undefined
  /** How many characters of an output the model reads. Default 10,000. */
  readonly maxOutput?: number | undefined
  /** Receives what happens to calls, as plain JSON. A throw is ignored. */
  readonly onEvent?: ((event: ToolEvent.Wire) => void) | undefined
}

export interface Request<Tools> {
  /** The same tools; their calls pass the gates. Tools that the policy hides are missing. */
  readonly tools: Tools
  /** Whether a rule ends the loop now; usable as `stopWhen` of the AI SDK. */
  readonly isOver: () => Promise<boolean>
  /** Cancels the calls that run, and ends the request. */
  readonly close: () => Promise<void>
}

/** Guarded tools. Their executor works until `close`. */
export interface Guarded<Tools> extends Request<Tools> {
  /**
   * Begins another request with separate counts, order and limits. Pools and grants are shared. Use it in a server,
   * where one guard serves many conversations.
   */
  readonly request: () => Promise<Request<Tools>>
}

const keys = {
  policy: true,
  rules: true,
  tools: true,
  approvals: true,
  approvalTimeout: true,
  timeout: true,
  limits: true,
  dedupe: true,
  concurrency: true,
  maxOutput: true,
  onEvent: true
} satisfies { readonly [K in keyof Options]-?: true }

/** What only a guard can find wrong; the executor checks the rest. */
export const problemsOf = (given: Options, toolkit: Toolkit.Any, hasFlow: boolean): ReadonlyArray<Problem> => {
  const names = Object.keys(keys)
  const unknown = Object.keys(given).filter((it) => !names.includes(it)).map((path): Problem => ({
    path,
    problem: unknownKey,
    expected: `one of ${names.join(", ")}`
  }))
  const { approvals, limits, policy } = given
  const flow = hasFlow ? `a function, or "loop"` : "a function"
  const isAnswered = typeof approvals === "function" || (hasFlow && approvals === "loop")
  const wrong: ReadonlyArray<Problem> = approvals === undefined || isAnswered
    ? []
    : [{ path: "approvals", problem: "it cannot answer approval requests", expected: flow }]
  const limited = limits === undefined || (Predicate.isObject(limits) &&
      Object.keys(limits).every((it) => it === "calls" || it === "time"))
    ? []
    : [{ path: "limits", problem: "it has other keys", expected: "calls, time or both" }]
  const asking = approvals !== undefined || policy !== undefined ?
    [] :
    Object.values(toolkit.tools).filter((it) => Context.get(it.annotations, Tool.Readonly) !== true).map((
      it
    ): Problem => ({
      path: `tools.${it.name}`,
      problem: "its calls need approval, and there is no approver",
      expected: `readOnly: true if it changes nothing, its name in policy.allow, or ${flow} as approvals`
    }))
  return [...unknown, ...wrong, ...limited, ...asking]
}
