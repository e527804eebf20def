/**
 * What a policy would have done with the calls of a journal. Pure.
 *
 * Not everything that a policy looks at is on record. What is missing is not guessed: every form that the call may have
 * had is decided, and where they are decided differently the call is `undecidable`.
 */
import * as Result from "effect/Result"
import type { GateCall } from "../core/gates/Gate.ts"
import type { Target } from "../core/gates/PermissionPattern.ts"
import type { Parsed } from "../core/gates/Policy.ts"
import type { Subject } from "../core/gates/ToolPolicy.ts"
import * as ArgumentClasses from "./ArgumentClasses.ts"
import * as PolicyExamples from "./PolicyExamples.ts"
import * as PolicyQuestion from "./PolicyQuestion.ts"
import { type Happened, isRedacted, type Recorded } from "./RecordedCalls.ts"

/** What is known of the tools now. */
export interface Known {
  readonly tool: (name: string) => PolicyExamples.Tool | undefined
  /** Targets that the tool computes from recorded arguments now; `undefined`: unknown. */
  readonly targets: (call: Recorded) => ReadonlyArray<Target> | undefined
}

/** A call, what became of it, and what a policy would have done. */
export interface Replayed {
  readonly call: Recorded
  readonly would: Exclude<Happened, "other"> | "undecidable"
  /** One way to decide it; absent: it is undecidable. */
  readonly verdict: PolicyQuestion.Verdict | undefined
  /** What the record does not say; absent: it is decided. */
  readonly missing: string | undefined
}

/** Decides recorded calls by a policy. */
export const replay = (policy: Parsed, calls: ReadonlyArray<Recorded>, known: Known): ReadonlyArray<Replayed> => {
  const judge = PolicyQuestion.judge(policy)
  const subjects = subjectsBy(known)
  const given = givenBy(policy)
  return calls.map((call) => {
    if (isRedacted([call.args, call.targets])) {
      const missing = "a secret was taken out of its arguments or targets"
      return { call, would: "undecidable", verdict: undefined, missing }
    }
    let verdict: PolicyQuestion.Verdict | undefined
    for (const { needsApproval, subject } of subjects(call)) {
      const classes = given(subject, call)
      if (Result.isFailure(classes)) return { call, would: "undecidable", verdict: undefined, missing: classes.failure }
      for (const { args, roles } of classes.success) {
        for (const targets of targetsOf(call, known)) {
          for (const sandbox of sandboxesOf(policy, call)) {
            const next = judge({ tool: subject, args, roles, targets, needsApproval, sandbox })
            if (verdict !== undefined && verdict.decision._tag !== next.decision._tag) {
              return { call, would: "undecidable", verdict: undefined, missing: missingOf(call) }
            }
            verdict = next
          }
        }
      }
    }
    return { call, would: wouldOf(verdict!), verdict, missing: undefined }
  })
}

/** The arguments and roles that a call may have had: roles are never on record, arguments not always. */
const givenBy = (policy: Parsed) => {
  const known = new Map<Subject, {
    readonly classes: ReturnType<typeof ArgumentClasses.classesOf>
    readonly roles: ReturnType<typeof ArgumentClasses.rolesOf>
  }>()
  return (subject: Subject, { args }: Recorded) => {
    let found = known.get(subject)
    if (found === undefined) {
      const clauses = PolicyExamples.clausesOf(policy, subject)
      const classes = ArgumentClasses.classesOf(clauses, subject.jsonSchema)
      known.set(subject, found = { classes, roles: ArgumentClasses.rolesOf(clauses) })
    }
    const { classes, roles } = found
    return Result.map(
      classes,
      (all) => args._tag === "Full" ? roles.map((roles) => ({ args: args.value, roles })) : all
    )
  }
}

/** Tells whether a policy would have done something else with a call than the one of that time. */
export const differs = ({ call, would }: Replayed): boolean =>
  would !== "undecidable" && call.happened !== "other" && would !== call.happened

const wouldOf = ({ decision: { _tag } }: PolicyQuestion.Verdict): Exclude<Happened, "other"> =>
  _tag === "Allow" ? "allow" : _tag === "Ask" ? "ask" : "deny"

const missingOf = (call: Recorded): string =>
  call.args._tag === "Full"
    ? "its targets, its sandbox, the roles of the principal or the nature of the tool are not on record"
    : "its arguments are not on record"

/** The natures that the tool of a call may have had, and what it may have said of the call. */
const subjectsBy = (known: Known) => {
  const subjects = new Map<string, ReadonlyArray<Subject>>()
  return (call: Recorded): ReadonlyArray<{ readonly subject: Subject; readonly needsApproval: boolean }> => {
    const tool = known.tool(call.tool)
    const key = `${call.tool} ${call.class}`
    let found = subjects.get(key)
    if (found === undefined) {
      const isRead = call.class === undefined ? {} : { readOnly: call.class === "ReadOnly" }
      found = tool === undefined ? PolicyQuestion.natures(call.tool, isRead) : [tool.subject]
      subjects.set(key, found)
    }
    const approvals = tool === undefined
      ? call.why === "the tool needs approval" ? [true] : [false, true]
      : PolicyExamples.approvalOf(tool)
    return found.flatMap((subject) => approvals.map((needsApproval) => ({ subject, needsApproval })))
  }
}

/** How a call may have been confined, as far as the policy looks at it. */
const sandboxesOf = ({ sandboxed }: Parsed, { sandbox }: Recorded): ReadonlyArray<GateCall["sandbox"]> => {
  if (sandbox === undefined && sandboxed !== undefined) return PolicyExamples.sandboxes
  return [sandbox === "none" ? undefined : sandbox]
}

/** The targets that a call may have had. */
const targetsOf = (call: Recorded, known: Known): ReadonlyArray<ReadonlyArray<Target> | undefined> => {
  const computed = known.targets(call)
  const texts = call.targets ?? []
  const isSame = computed !== undefined && computed.length === texts.length &&
    computed.every(({ text }, index) => text === texts[index])
  if (computed !== undefined && (texts.length === 0 || isSame)) return [computed]
  if (texts.length === 0) return [[], undefined]
  const tool = known.tool(call.tool)
  return (tool === undefined ? [{}] : PolicyExamples.formsOf(tool)).map((form) =>
    texts.map((text) => ({ text, ...form }))
  )
}
