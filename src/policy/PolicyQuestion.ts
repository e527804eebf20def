/**
 * What policies are asked about calls that nobody makes: for analyses without an executor. Pure.
 *
 * Decisions are those of `ToolPolicy`. What is not known of a call is not guessed: every form that it may have is
 * decided, and only what holds for all of them holds.
 */
import type * as Clause from "../core/gates/Clause.ts"
import * as PermissionPattern from "../core/gates/PermissionPattern.ts"
import type { Decision, Parsed } from "../core/gates/Policy.ts"
import * as ToolPolicy from "../core/gates/ToolPolicy.ts"

/** A call as a policy sees it. */
export interface Question extends ToolPolicy.Given {
  readonly tool: ToolPolicy.Subject
}

/** What becomes of a call: `review` is approved by a reviewer at best, `askAlways` by people each time. */
export type Outcome = "allow" | "review" | "ask" | "askAlways" | "deny"

/** From the loosest to the strictest. */
export const outcomes: ReadonlyArray<Outcome> = ["allow", "review", "ask", "askAlways", "deny"]

/** What a policy says of a call, and what in it says so. */
export interface Verdict {
  readonly outcome: Outcome
  /** The step that decides. */
  readonly step: ToolPolicy.StepName
  readonly why: string
  /** The clause that decides, if one does. */
  readonly clause: Clause.Parsed | undefined
  readonly decision: Decision
}

/** Asks a policy about calls. */
export type Judge = (question: Question) => Verdict

/** Gives how to ask a policy. */
export const judge = (policy: Parsed): Judge => {
  const tools = new Map<ToolPolicy.Subject, ToolPolicy.ToolPolicy>()
  return (question) => {
    const { tool } = question
    let forTool = tools.get(tool)
    if (forTool === undefined) tools.set(tool, forTool = ToolPolicy.forTool(policy, tool))
    let last: ToolPolicy.Step | undefined
    const decision = forTool.decide(question, (step) => {
      last = step
    })
    return {
      outcome: outcomeOf(decision),
      step: last!.step,
      why: last!.why,
      clause: last!.clause ?? (last!.step === "allow" ? covering(policy, question) : undefined),
      decision
    }
  }
}

/** Says what becomes of a call by a decision. */
export const outcomeOf = (decision: Decision): Outcome =>
  decision._tag !== "Ask"
    ? decision._tag === "Allow" ? "allow" : "deny"
    : decision.isAlways === true
    ? "askAlways"
    : decision.review?.mayAllow === true
    ? "review"
    : "ask"

/** Every nature that a tool may have of which only this is known. */
export const natures = (
  name: string,
  known: Partial<Pick<ToolPolicy.Subject, "readOnly" | "openWorld" | "edits">> = {}
): ReadonlyArray<ToolPolicy.Subject> =>
  ([[true, false, false], [true, true, false], [false, false, false], [false, true, false], [
    false,
    false,
    true
  ]] as const)
    .map(([readOnly, openWorld, edits]) => ({ readOnly, openWorld, edits }))
    .filter((it) =>
      (known.readOnly ?? it.readOnly) === it.readOnly && (known.openWorld ?? it.openWorld) === it.openWorld &&
      (known.edits ?? it.edits) === it.edits
    )
    .map((it) => ({ name, declaresTargets: true, guardsTargets: false, ...it }))

/** Says of what nature a tool is. */
export const natureOf = ({ edits, openWorld, readOnly }: ToolPolicy.Subject): string => {
  const does = readOnly ? "only reads" : edits ? "only edits files" : "changes things"
  return openWorld ? `${does} and reaches outside` : does
}

/** Tells whether a clause holds for a call as far as its list demands: what cannot be decided asks and denies. */
export const applies = (clause: Clause.Parsed, holds: boolean | undefined): boolean =>
  clause.list === "deny" || clause.list === "ask" || clause.list === "askAlways" || clause.list === "review.deny"
    ? holds !== false
    : holds === true

const covering = (policy: Parsed, { targets, tool }: Question): Clause.Parsed | undefined =>
  policy.allow.find((it) => PermissionPattern.covers([it], tool.name, targets))

/** Names what decides, the same for all calls that it decides. */
export const reasonOf = ({ clause, decision, outcome, step, why }: Verdict): string =>
  clause !== undefined
    ? `${outcome} ${step} ${clause.tier} ${clause.list}[${clause.index}]`
    : step === "protected"
    ? `${outcome} protected ${decision._tag === "Ask" ? decision.because?.join() ?? "" : ""}`
    : `${outcome} ${step} ${why}`
