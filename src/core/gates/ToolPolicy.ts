/**
 * What a policy says of the calls of one tool: allow, ask or deny. Pure; `Permissions` applies it.
 *
 * In this order: a `deny` clause that touches the call, the mode, `askAlways` and `ask` clauses that touch it, the
 * tool's own `needsApproval` unless `skipApproval` names the tool, `allow` clauses that cover all of it, a sandbox
 * where `sandboxed` allows, the default. A protected target, or one that is not known and so may be protected, is asked
 * about where it would otherwise be allowed.
 *
 * A clause whose conditions or roles cannot be decided denies and asks, and does not allow.
 */
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import * as Clause from "./Clause.ts"
import type { GateCall } from "./Gate.ts"
import * as PermissionPattern from "./PermissionPattern.ts"
import { type Decision, type Parsed, type Review, type Said, strictest } from "./Policy.ts"

/** What a policy looks at of a tool. */
export type Subject =
  & Pick<RegisteredTool, "name" | "actsAs" | "readOnly" | "openWorld" | "edits" | "guardsTargets" | "declaresTargets">
  & Partial<Pick<RegisteredTool, "needsApproval" | "jsonSchema" | "sandboxed">>

/** What a policy looks at of a call. */
export interface Given extends Clause.Given {
  /**
   * What the call is about; `undefined` if that could not be found out: then patterns with a target deny and ask, but
   * do not allow.
   */
  readonly targets: ReadonlyArray<PermissionPattern.Target> | undefined
  /** What the tool says of the call. */
  readonly needsApproval: boolean
  readonly sandbox?: GateCall["sandbox"]
}

/** What a policy says of one tool's calls. */
export interface ToolPolicy {
  /** Says what holds of a call. `trace` is told what each step says up to the one that decides. */
  readonly decide: (call: Given, trace?: Trace) => Decision
  /** Whether what a call is about matters. */
  readonly needsTargets: boolean
  /** Gives what a reviewer may say of a call that something else than the policy asks about; `undefined`: nothing. */
  readonly review: (call: Given) => Review | undefined
}

/** The steps of a decision, in their order. */
export type StepName =
  | "deny"
  | "mode"
  | "ask"
  | "protected"
  | "needsApproval"
  | "allow"
  | "sandboxed"
  | "default"

/** What a step says of a call. */
export interface Step {
  readonly step: StepName
  readonly says: "nothing" | Decision["_tag"]
  readonly why: string
  readonly clause?: Clause.Parsed | undefined
}

type Trace = (step: Step) => void

/** Gives what a policy says of one tool's calls, so that each call asks only what matters to it. */
export const forTool = (self: Parsed, tool: Subject): ToolPolicy => {
  const schema = tool.jsonSchema
  const naming = (clauses: ReadonlyArray<Clause.Parsed>) =>
    clauses.filter((it) => PermissionPattern.names(it, tool.name))
  const stricter = (clauses: ReadonlyArray<Clause.Parsed>) => Clause.strictFor(clauses, tool)
  const [deny, ask, allow] = [stricter(self.deny), stricter(self.ask), naming(self.allow)]
  const [reviewAllow, reviewDeny] = [naming(self.reviewAllow), naming(self.reviewDeny)]
  const clauses = [...deny, ...ask, ...allow, ...reviewAllow, ...reviewDeny]
  const forbidden = forbiddenBy(self, tool)
  const unlisted = unlistedBy(self, self.defaults, tool)
  const locked = self.locks.map(({ level }) => ({
    level,
    unlisted: unlistedBy(self, self.defaults.filter((it) => it.level <= level), tool)
  }))
  const skipsApproval = self.skipApproval.has(tool.name)
  const isAllowPlain = allow.every((it) => it.isPlain)
  const hasReview = reviewAllow.length > 0 || reviewDeny.length > 0
  const asksOf = (call: Given, targets: Given["targets"], asked: Asked): Decision => {
    const approvers = asked.clauses.flatMap((it) => it.approvers === undefined ? [] : [it.approvers])
    const isAlways = asked.clauses.some((it) => it.list === "askAlways") ||
      targets?.some(({ kind }) => kind === "always") === true
    const review = hasReview ? reviewOf(call, targets, asked) : undefined
    // an answer for longer would cover arguments that nobody saw
    const isAboutArguments = asked.clauses.some((it) => it.tests.length > 0) ||
      (call.needsApproval && !skipsApproval && typeof tool.needsApproval === "function")
    return {
      _tag: "Ask",
      why: asked.why,
      because: asked.because,
      ...(isAboutArguments ? { remember: "call" } : {}),
      ...(isAlways ? { isAlways } : {}),
      ...(approvers.length === 0 ? {} : { approvers }),
      ...(review === undefined ? {} : { review }),
      ...(asked.clauses[0] === undefined ? {} : { clause: asked.clauses[0] })
    }
  }
  const reviewOf = (call: Given, targets: Given["targets"], asked: Asked): Review | undefined => {
    // who may not loosen what a tier above asks may not let a reviewer answer it
    const level = asked.clauses.reduce((level, it) => Math.min(level, it.level), Infinity)
    const needsPerson = call.needsApproval && !skipsApproval
    const may = reviewAllow.filter((it) =>
      it.level <= level && (!needsPerson || it.tool === tool.name) && Clause.holds(it, call, schema) === true
    )
    const mayAllow = asked.isReviewable && asked.clauses.every((it) => it.list !== "askAlways") &&
      PermissionPattern.covers(may, tool.name, targets)
    const mayDeny = reviewDeny.some((it) =>
      Clause.holds(it, call, schema) !== false && PermissionPattern.fits(it, targets)
    )
    return mayAllow || mayDeny ? { mayAllow, mayDeny } : undefined
  }
  const targetsOf = ({ targets }: Given): Given["targets"] =>
    targets?.map((it) => isRun(self, it) ? { ...it, kind: "protected" as const } : it)
  // what is not known may be protected
  const guardsOf = (targets: Given["targets"], isListed: boolean): ReadonlyArray<string> =>
    targets?.some(({ kind }) => kind === "protected") === true
      ? ["it is protected"]
      : targets?.some(({ kind }) => kind === "always") === true
      ? ["it is asked about each time"]
      : !isListed && targets?.some(({ kind }) => kind === "host") === true
      ? ["no pattern names the host"]
      : targets === undefined && tool.guardsTargets
      ? [unknown]
      : []
  /** What holds of a call that no clause denies or asks about. */
  const unasked = (
    call: Given,
    { guards, isListed, targets }: Judged,
    unlisted: Unlisted,
    trace?: Trace
  ): Decision => {
    const { needsApproval } = call
    if (guards.length > 0 && (isListed ? !unlisted.denies : unlisted.decision._tag !== "Deny")) {
      const guarded = targets?.find(({ kind }) => kind !== undefined && kind in reasons)
      const why = guarded === undefined
        ? unknown
        : `${JSON.stringify(guarded.text)} ${reasons[guarded.kind as keyof typeof reasons]}`
      return ends(
        trace,
        "protected",
        asksOf(call, targets, { clauses: [], why, because: guards, isReviewable: false })
      )
    }
    const isCovered = isListed && guards.length === 0
    const isConfined = self.sandboxed !== undefined && guards.length === 0 && holds(call.sandbox)
    if (needsApproval && !skipsApproval && (isCovered || isConfined || !unlisted.denies)) {
      return ends(
        trace,
        "needsApproval",
        asksOf(call, targets, { clauses: [], why: "the tool needs approval", because: [], isReviewable: true })
      )
    }
    trace?.({ step: "needsApproval", says: "nothing", why: ownApproval(self, tool, needsApproval) })
    if (isCovered) return ends(trace, "allow", allowed, "the policy allows it")
    trace?.({ step: "allow", says: "nothing", why: "no clause allows all of it" })
    if (isConfined) return ends(trace, "sandboxed", allowed, `it is confined${Clause.from(self.sandboxed!.tier)}`)
    const decision = unlisted.decision._tag === "Ask" && hasReview
      ? asksOf(call, targets, { clauses: [], why: unlisted.decision.why, because: [], isReviewable: true })
      : unlisted.decision
    return ends(trace, "default", decision, unlisted.why)
  }
  const decide: ToolPolicy["decide"] = (call, trace) => {
    const targets = targetsOf(call)
    const touches = (it: Clause.Parsed): boolean =>
      (it.isPlain || Clause.holds(it, call, schema) !== false) && PermissionPattern.fits(it, targets)
    const denied = deny.find(touches)
    if (denied !== undefined) {
      return ends(trace, "deny", {
        _tag: "Deny",
        rule: `deny ${denied.source}${Clause.from(denied.tier)}`,
        clause: denied
      })
    }
    trace?.({ step: "deny", says: "nothing", why: "no clause denies it" })
    if (forbidden !== undefined) return ends(trace, "mode", { _tag: "Deny", rule: forbidden })
    trace?.({ step: "mode", says: "nothing", why: "no mode denies it" })
    const surely = isAllowPlain ? allow : allow.filter((it) => Clause.holds(it, call, schema) === true)
    const isListed = PermissionPattern.covers(surely, tool.name, targets?.map(unguarded))
    const guards = guardsOf(targets, isListed)
    const asked = ask.length === 0 ? ask : askedBy(ask.filter(touches))
    if (asked[0] !== undefined) {
      // to ask about what the tiers down to a lock deny would loosen it
      const lock = locked.findLast(({ level }) => asked.every((it) => it.level > level))
      const above = lock && unasked(call, { targets, guards, isListed }, lock.unlisted)
      if (above?._tag === "Deny") return ends(trace, "default", above)
      const because = asked.flatMap((it) => it.target === undefined ? [] : [`${it.list} ${it.source}`])
      return ends(
        trace,
        "ask",
        asksOf(call, targets, {
          clauses: asked,
          why: `the policy asks about ${asked[0].source}${Clause.from(asked[0].tier)}`,
          because: [...because, ...guards],
          isReviewable: guards.length === 0
        })
      )
    }
    trace?.({ step: "ask", says: "nothing", why: "no clause asks about it" })
    return unasked(call, { targets, guards, isListed }, unlisted, trace)
  }
  const review: ToolPolicy["review"] = (call) => {
    if (!hasReview) return undefined
    const targets = targetsOf(call)
    const isReviewable = guardsOf(targets, false).length === 0
    return reviewOf(call, targets, { clauses: [], why: "", because: [], isReviewable })
  }
  const isPlain = clauses.every((it) => it.isPlain)
  const [always, approved] = [
    decide({ targets: [], needsApproval: false }),
    decide({ targets: [], needsApproval: true })
  ]
  const needsTargets = tool.guardsTargets || clauses.some((it) => it.target !== undefined) ||
    // who is asked is asked about these, and what they say is remembered for them
    (tool.declaresTargets &&
      (!isPlain || always._tag === "Ask" || (mayNeedApproval(tool) && approved._tag === "Ask")))
  if (needsTargets || !isPlain || self.sandboxed !== undefined) return { decide, needsTargets, review }
  // without targets every call of the tool is the same to the policy
  return {
    decide: (call, trace) =>
      trace !== undefined || (call.targets !== undefined && call.targets.length > 0)
        ? decide(call, trace)
        : call.needsApproval
        ? approved
        : always,
    needsTargets,
    review
  }
}

/** Tells whether an agent may know of a tool: some call of it is not denied. */
export const sees = (self: Parsed, tool: Subject): boolean => {
  const names = namesOf(tool)
  const isDenied = (it: Clause.Parsed) =>
    it.isPlain && it.target === undefined && names.some((name) => PermissionPattern.names(it, name))
  if (self.deny.some(isDenied) || forbiddenBy(self, tool) !== undefined) return false
  const mayRun = [...self.allow, ...self.ask.filter((it) => !isBelowLock(self, it))]
  if (mayRun.some((it) => PermissionPattern.names(it, tool.name))) return true
  if (self.sandboxed !== undefined && tool.sandboxed !== undefined) return true
  const { decision, denies } = unlistedBy(self, self.defaults, tool)
  return decision._tag !== "Deny" || (!denies && mayNeedApproval(tool) && !self.skipApproval.has(tool.name))
}

/** Says what a policy holds of a call, and what each step says up to the one that decides. */
export const explain = (
  self: Parsed,
  tool: Subject,
  call: Given
): { readonly decision: Decision; readonly steps: ReadonlyArray<Step> } => {
  const steps: Array<Step> = []
  const decision = forTool(self, tool).decide(call, (step) => void steps.push(step))
  return { decision, steps }
}

/** A call, as far as it is judged. */
interface Judged {
  readonly targets: Given["targets"]
  readonly guards: ReadonlyArray<string>
  /** Whether `allow` covers it, apart from guards. */
  readonly isListed: boolean
}

/** The clauses that ask about a call, and why. */
interface Asked {
  readonly clauses: ReadonlyArray<Clause.Parsed>
  readonly why: string
  readonly because: ReadonlyArray<string>
  readonly isReviewable: boolean
}

const ends = (trace: Trace | undefined, step: StepName, decision: Decision, why?: string): Decision => {
  trace?.({
    step,
    says: decision._tag,
    why: why ?? (decision._tag === "Ask" ? decision.why : decision._tag === "Deny" ? decision.rule : "allowed"),
    ...(decision._tag === "Allow" || decision.clause === undefined ? {} : { clause: decision.clause })
  })
  return decision
}

const isBelowLock = ({ locks: [lock] }: Parsed, { level }: Clause.Parsed): boolean =>
  lock !== undefined && level > lock.level

/** Those that ask each time come first. */
const askedBy = (asked: ReadonlyArray<Clause.Parsed>): ReadonlyArray<Clause.Parsed> =>
  asked.length < 2
    ? asked
    : [...asked.filter((it) => it.list === "askAlways"), ...asked.filter((it) => it.list === "ask")]

/** Whether nothing that a call does reaches outside of its sandbox. */
const holds = (sandbox: Given["sandbox"]): boolean => sandbox?._tag === "Confined" && sandbox.network === "none"

/** Whether what is written there would be run without asking. */
const isRun = (self: Parsed, { runBy }: PermissionPattern.Target): boolean => {
  if (runBy === undefined) return false
  const naming = (it: Clause.Parsed) => PermissionPattern.names(it, runBy)
  return (self.defaults.every((it) => it.is === "allow") || self.allow.some(naming)) &&
    ![...self.deny, ...self.ask].some((it) => it.isPlain && it.target === undefined && naming(it))
}

/** The names that patterns which deny or ask may know a tool by. */
const namesOf = ({ actsAs = [], name }: Subject): ReadonlyArray<string> => [name, ...actsAs]

const allowed: Decision = { _tag: "Allow" }

const reasons = {
  protected: "is protected",
  always: "needs an approval each time",
  host: "is a host that no pattern names"
} as const

const unknown = "what it is about could not be found out"

/** A target as it would be if it guarded nothing. */
const unguarded = (it: PermissionPattern.Target): PermissionPattern.Target =>
  it.kind === "protected" || it.kind === "always" ? { ...it, kind: undefined } : it

/** What the modes of the tiers say no to. */
const forbiddenBy = ({ modes }: Parsed, tool: Subject): string | undefined => {
  for (const { is, tier } of modes) {
    const reason = is === "denyAll"
      ? "every call is denied"
      : (is === "readOnly" || is === "plan") && !tool.readOnly
      ? "nothing may be changed"
      : is === "offline" && tool.openWorld
      ? "nothing may reach outside"
      : undefined
    if (reason !== undefined) return `mode ${is}: ${reason}${Clause.from(tier)}`
  }
  return undefined
}

const mayNeedApproval = ({ needsApproval }: Subject): boolean => needsApproval !== undefined && needsApproval !== false

const ownApproval = ({ skipApproval }: Parsed, { name }: Subject, needsApproval: boolean): string => {
  const tier = skipApproval.get(name)
  return !needsApproval
    ? "the tool needs no approval for it"
    : tier === undefined
    ? "the default denies it"
    : `skipApproval names the tool${Clause.from(tier)}`
}

/** What holds of calls that no list is about. */
interface Unlisted {
  readonly decision: Decision
  /** Whether a default denies everything: then neither a guard nor the tool itself asks. */
  readonly denies: boolean
  /** Why, unless it is the default. */
  readonly why: string | undefined
}

/** What the strictest of these defaults says, unless edits are accepted. */
const unlistedBy = (self: Parsed, defaults: Parsed["defaults"], tool: Subject): Unlisted => {
  const edits = self.modes.find((it) => it.is === "acceptEdits")
  const denies = defaults.some((it) => it.is === "deny")
  if (edits !== undefined && tool.edits && !denies) {
    return { decision: allowed, denies, why: `mode acceptEdits${Clause.from(edits.tier)}` }
  }
  const decision = defaults.map((it) => oneDefault(it, tool))
    .reduce((one, other) => one._tag === other._tag ? one : strictest(one, other))
  return { decision, denies, why: undefined }
}

const oneDefault = ({ is, tier }: Said<Parsed["defaults"][number]["is"]>, tool: Subject): Decision => {
  const from = Clause.from(tier)
  const ask = (why: string): Decision => ({ _tag: "Ask", why: `${why}${from}`, because: [] })
  const deny = (rule: string): Decision => ({ _tag: "Deny", rule: `${rule}${from}` })
  switch (is) {
    case "allow":
      return allowed
    case "ask":
      return ask("the policy asks about whatever it does not allow")
    case "deny":
      return deny("default deny")
    case "cautious":
      if (!tool.readOnly) return ask("the tool changes things")
      return tool.openWorld ? ask("the tool reaches outside") : allowed
    case "readOnly":
      if (!tool.readOnly) return deny("mutating tools need to be allowed")
      return tool.openWorld ? deny("tools that reach outside need to be allowed") : allowed
  }
}
