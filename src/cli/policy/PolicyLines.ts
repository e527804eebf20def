/** How `tool-executor policy` shows calls and what policies say of them. */
import type * as Clause from "../../core/gates/Clause.ts"
import * as PermissionPattern from "../../core/gates/PermissionPattern.ts"
import type * as Policy from "../../core/gates/Policy.ts"
import type * as ToolPolicy from "../../core/gates/ToolPolicy.ts"
import { clip } from "../../internal/clip.ts"
import { escape } from "../../internal/escape.ts"
import type * as PolicyQuestion from "../../policy/PolicyQuestion.ts"
import { natureOf } from "../../policy/PolicyQuestion.ts"
import type { Recorded } from "../../policy/RecordedCalls.ts"

/** What becomes of a call, in words. */
export const wordsOf: Readonly<Record<PolicyQuestion.Outcome, string>> = {
  allow: "runs",
  review: "needs approval, which a reviewer may give",
  ask: "needs approval",
  askAlways: "needs approval each time",
  deny: "is denied"
}

/** A call, with all that matters to its decision. */
export const callOf = (question: PolicyQuestion.Question): string => {
  const { args, needsApproval, roles = [], sandbox, targets, tool } = question
  const about = targets === undefined
    ? "(unknown targets)"
    : targets.length === 0
    ? ""
    : `(${targets.map(({ text }) => text).join(", ")})`
  const conditions = [
    ...targets?.flatMap(({ kind, runBy, spellings }) => [
      ...kind === undefined ? [] : [kindWords[kind]],
      ...runBy === undefined ? [] : [`a file that ${runBy} may run`],
      ...spellings === undefined || spellings.length > 3 ? [] : spellings.map((it) => `also written ${it}`)
    ]) ?? [],
    ...isShown(args, targets) ? [] : [`arguments ${JSON.stringify(args)}`],
    ...roles.length > 0 ? [`roles ${roles.join(", ")}`] : [],
    // an example of a call whose roles are unknown
    ..."roles" in question && question.roles === undefined ? ["unknown roles"] : [],
    ...needsApproval ? ["the tool wants approval"] : [],
    ...sandbox === undefined ? [] : ["in a sandbox"]
  ]
  return escape(`${tool.name}${about}${conditions.length === 0 ? "" : `  [${conditions.join("; ")}]`}`)
}

/** A call on record: its tool and targets, or its arguments. */
export const recordedCall = ({ args, targets = [], tool }: Recorded): string =>
  targets.length > 0
    ? `${tool}(${targets.join(", ")})`
    : args._tag === "Full"
    ? `${tool} ${clip(JSON.stringify(args.value) ?? "", 200)}`
    : tool

/** What decides, in words: the clause with its tier and place, or the step. */
export const reasonOf = ({ clause, step, why }: PolicyQuestion.Verdict): string =>
  escape(
    clause === undefined
      ? `${step === "default" ? "default" : step}: ${why}`
      : `${placeOf(clause)} ${clause.source}`
  )

/** The steps of a decision, in their order. */
export const stepLines = (steps: ReadonlyArray<ToolPolicy.Step>): ReadonlyArray<string> =>
  steps.map(({ clause, says, step, why }, index) => {
    const place = clause === undefined
      ? ""
      : `  ← ${placeOf(clause)}`
    return escape(`  ${index + 1}. ${step.padEnd(14)}${says === "nothing" ? "–" : says.toLowerCase()}  ${why}${place}`)
  })

/** Clauses that would allow the call if no tier above locked them. */
export const lockedLines = (policy: Policy.Parsed, { targets, tool }: PolicyQuestion.Question): ReadonlyArray<string> =>
  policy.locked.filter((it) => it.list === "allow" && PermissionPattern.covers([it], tool.name, targets)).map((it) =>
    escape(`Not in effect: ${placeOf(it)} ${it.source}, because the policy of ${policy.locks[0]?.tier} is locked.`)
  )

/** What a policy says of the same call in a sandbox. */
export const confinedLine =
  "In a sandbox without network, the call runs. To decide it like that, add \"sandbox\": \"none\"."

/** Of what natures a tool may be that the command does not know. */
export const natureLine = (questions: ReadonlyArray<PolicyQuestion.Question>): string =>
  escape(`If ${questions[0]!.tool.name} ${questions.map(({ tool }) => natureOf(tool)).join(", or ")}:`)

const kindWords = {
  exact: "only the whole tool can be allowed",
  protected: "a protected target",
  always: "asked about each time",
  host: "a host that a running call wants to reach"
} as const

const placeOf = ({ index, list, tier }: Clause.Parsed): string => `${tier === "" ? "" : `${tier} `}${list}[${index}]`

/** Whether the targets say all that the arguments say. */
const isShown = (args: unknown, targets: PolicyQuestion.Question["targets"]): boolean =>
  typeof args !== "object" || args === null ||
  Object.values(args).every((value) => targets?.some(({ text }) => text === value) === true)

/** What a policy says of a call, as data. */
export const dataOf = ({ clause, outcome, step, why }: PolicyQuestion.Verdict) => ({
  outcome,
  step,
  why,
  ...clause === undefined
    ? {}
    : { clause: { tier: clause.tier, list: clause.list, index: clause.index, text: clause.source } }
})
