/**
 * Policies as data, and how several of them, in tiers, become one. Pure. `ToolPolicy` says what it holds of a call.
 *
 * Tiers are merged by rule, not by order: every tier's `deny`, `ask` and `askAlways` hold, and of all defaults the
 * strictest. What allows (`allow`, `skipApproval`, `review`, `sandboxed`, the mode `acceptEdits`) holds unless a tier
 * above says `lock`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Evidence } from "../facts/Evidence.ts"
import type { Approvers } from "../vocabulary/Approvers.ts"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import * as Clause from "./Clause.ts"
import * as PermissionPattern from "./PermissionPattern.ts"

const optional = Schema.optionalKey

const Entries = Schema.Array(Clause.Entry)

/** Schema of a policy as data. */
export const Policy = Schema.Struct({
  default: optional(Schema.Literals(["allow", "ask", "deny", "cautious", "readOnly"])).annotate({
    description:
      "For calls that no list is about; cautious, the default, lets tools run that change nothing and stay inside and " +
      "asks about the others; readOnly denies the others"
  }),
  mode: optional(Schema.Literals(["ask", "acceptEdits", "readOnly", "offline", "plan", "denyAll"])).annotate({
    description:
      "What holds on top of the lists: acceptEdits asks for no edits; readOnly and plan deny what changes things; " +
      "offline denies what reaches outside; denyAll denies everything"
  }),
  allow: optional(Entries).annotate({ description: "Calls that may run, if all they are about is covered" }),
  ask: optional(Entries).annotate({
    description: "Calls that a person is asked about, if anything they are about fits"
  }),
  askAlways: optional(Entries).annotate({
    description: "Calls that a person is asked about each time, whatever was approved before"
  }),
  deny: optional(Entries).annotate({ description: "Calls that may not run, if anything they are about fits" }),
  skipApproval: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of tools whose own needsApproval does not count"
  }),
  skipProvenance: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of tools whose calls need no approval because of where their arguments come from"
  }),
  sandboxed: optional(Schema.Literal("allow")).annotate({
    description: "Calls that are wholly confined by a sandbox and reach no network may run"
  }),
  review: optional(Schema.Struct({
    allow: optional(Entries).annotate({ description: "Calls that a reviewer may approve, if all is covered" }),
    deny: optional(Entries).annotate({ description: "Calls that a reviewer may deny, if anything fits" })
  })).annotate({ description: "What a reviewer may decide before people are asked" }),
  lock: optional(Schema.Boolean).annotate({ description: "Tiers below may not allow anything in addition" })
})

/**
 * A policy as data. An entry of a list is a pattern, or a clause with conditions on arguments and roles.
 *
 * `default` decides about calls that match no list. `cautious`, the default, lets ReadOnly, closed-world tools run and
 * requires approval of the others; without an approver these are denied. `readOnly` denies the others.
 *
 * `mode`: `ask` (the default) adds nothing. `acceptEdits` requires no approval for tools that declare
 * `ToolAnnotations.Edits`. `readOnly` and `plan` deny what is not ReadOnly, `offline` what declares `Tool.OpenWorld`,
 * `denyAll` everything.
 *
 * `askAlways`: approval is requested for each call, whatever was approved before. No grant covers it.
 *
 * `skipApproval`: exact names of tools whose own `needsApproval` does not count. Without it a call that its tool wants
 * approved is asked about even where `allow` covers it: the tool's author knows when a call is dangerous.
 *
 * `skipProvenance`: exact names of tools whose calls run even if `Provenance` cannot prove their arguments.
 *
 * `sandboxed`: what runs in a sandbox without network needs no approval. `review`: the calls that a reviewer may
 * decide instead of people. `lock`: tiers below allow nothing in addition.
 */
export interface Policy {
  readonly default?: "allow" | "ask" | "deny" | "cautious" | "readOnly" | undefined
  readonly mode?: "ask" | "acceptEdits" | "readOnly" | "offline" | "plan" | "denyAll" | undefined
  readonly allow?: ReadonlyArray<Clause.Entry> | undefined
  readonly ask?: ReadonlyArray<Clause.Entry> | undefined
  readonly askAlways?: ReadonlyArray<Clause.Entry> | undefined
  readonly deny?: ReadonlyArray<Clause.Entry> | undefined
  readonly skipApproval?: ReadonlyArray<string> | undefined
  readonly skipProvenance?: ReadonlyArray<string> | undefined
  readonly sandboxed?: "allow" | undefined
  readonly review?: {
    readonly allow?: ReadonlyArray<Clause.Entry> | undefined
    readonly deny?: ReadonlyArray<Clause.Entry> | undefined
  } | undefined
  readonly lock?: boolean | undefined
}

/** A policy among others. */
export interface Tier {
  /** Such as `organisation`; refusals name it. */
  readonly name: string
  readonly policy: Policy
  /** It also holds elsewhere: a pattern about a tool that is not here is no mistake. Default false. */
  readonly isShared?: boolean | undefined
}

/** What a reviewer may say of a call before people are asked. */
export interface Review {
  readonly mayAllow: boolean
  readonly mayDeny: boolean
}

/** What the policy says of a call. */
export type Decision =
  | { readonly _tag: "Allow" }
  /**
   * A person is to be asked; `why` gives the reason. `because` lists the reasons that lie in the targets themselves,
   * each as one text: empty where every call of the tool would ask. Default: `why` alone.
   */
  | {
    readonly _tag: "Ask"
    readonly why: string
    readonly because?: ReadonlyArray<string> | undefined
    /** What an answer may be remembered for at most. Default: the whole tool. */
    readonly remember?: "call" | "resources" | "tool" | undefined
    /** Approval is requested for each such call: no grant and no reviewer approves it. */
    readonly isAlways?: boolean | undefined
    /** What else approvers see of the call. */
    readonly evidence?: ReadonlyArray<Evidence> | undefined
    /** Who approves: all of these must be satisfied. */
    readonly approvers?: ReadonlyArray<Approvers> | undefined
    /** What a reviewer may say first; absent: nothing. */
    readonly review?: Review | undefined
    /** The first clause that asks. */
    readonly clause?: Clause.Parsed | undefined
  }
  /** `rule` is the part of the policy that says no, `clause` the clause that does. */
  | { readonly _tag: "Deny"; readonly rule: string; readonly clause?: Clause.Parsed | undefined }

/** The stricter of two decisions. Where both ask, everything that either asks for holds. */
export const strictest = (one: Decision, other: Decision): Decision => {
  if (one._tag !== "Ask" || other._tag !== "Ask") return strictness[one._tag] >= strictness[other._tag] ? one : other
  const approvers = [...one.approvers ?? [], ...other.approvers ?? []]
  const evidence = [...one.evidence ?? [], ...other.evidence ?? []]
  const review = {
    mayAllow: one.review?.mayAllow === true && other.review?.mayAllow === true,
    mayDeny: one.review?.mayDeny === true || other.review?.mayDeny === true
  }
  return {
    ...one,
    because: [...reasonsOf(one), ...reasonsOf(other)],
    remember: narrowest(one.remember ?? "tool", other.remember ?? "tool"),
    isAlways: one.isAlways === true || other.isAlways === true,
    ...(approvers.length === 0 ? {} : { approvers }),
    ...(evidence.length === 0 ? {} : { evidence }),
    review: review.mayAllow || review.mayDeny ? review : undefined
  }
}

/** The reasons for approval that depend on the targets of the call. */
export const reasonsOf = (decision: Decision): ReadonlyArray<string> =>
  decision._tag === "Ask" ? decision.because ?? [decision.why] : []

/** The narrower of two things that an answer may be remembered for. */
export const narrowest = <A extends keyof typeof widths>(one: A, other: A): A =>
  widths[one] <= widths[other] ? one : other

const strictness = { Allow: 0, Ask: 1, Deny: 2 } as const

const widths = { call: 0, resources: 1, tool: 2 } as const

/** Something that a tier says. */
export interface Said<A> {
  readonly is: A
  readonly tier: string
  readonly level: number
}

type Default = NonNullable<Policy["default"]>
type Mode = NonNullable<Policy["mode"]>

/** One policy of all tiers, parsed. Clauses are in the order of their tiers, the uppermost first. */
export interface Parsed {
  readonly allow: ReadonlyArray<Clause.Parsed>
  /** Those of `ask` and `askAlways`. */
  readonly ask: ReadonlyArray<Clause.Parsed>
  readonly deny: ReadonlyArray<Clause.Parsed>
  readonly reviewAllow: ReadonlyArray<Clause.Parsed>
  readonly reviewDeny: ReadonlyArray<Clause.Parsed>
  /** All that tiers say, at least one: the strictest holds. */
  readonly defaults: ReadonlyArray<Said<Default>>
  /** All that tiers say: what one of them denies is denied. */
  readonly modes: ReadonlyArray<Said<Mode>>
  readonly sandboxed: Said<"allow"> | undefined
  /** By the name of the tool, the tier that skips its approval. */
  readonly skipApproval: ReadonlyMap<string, string>
  /** By the name of the tool, the tier that lets its arguments come from anywhere. */
  readonly skipProvenance: ReadonlyMap<string, string>
  /** The tiers that lock, the uppermost first. */
  readonly locks: ReadonlyArray<Said<true>>
  /** What would allow and does not hold, because a tier above locks. */
  readonly locked: ReadonlyArray<Clause.Parsed>
}

/**
 * Parses a policy; fails with every pattern that is not valid. Where the names of the tools are given, a pattern that
 * fits none of them is a problem as well, unless such a tool is expected to come.
 */
export const parse = (
  policy: Policy,
  tools?: ReadonlyArray<string>,
  expects?: (tool: string) => boolean
): Result.Result<Parsed, ReadonlyArray<Problem>> => parseTiers([{ name: "", policy }], tools, expects)

/** Parses the policies of tiers, the uppermost first, and merges them. The path of a problem begins with its tier. */
export const parseTiers = (
  tiers: ReadonlyArray<Tier>,
  tools?: ReadonlyArray<string>,
  expects: (tool: string) => boolean = () => false
): Result.Result<Parsed, ReadonlyArray<Problem>> => {
  const parsed = tiers.map((tier, level) => parseOne(tier, level, tier.isShared === true ? undefined : tools, expects))
  const problems = [...namesOf(tiers), ...parsed.flatMap((it) => it.problems)]
  if (problems.length > 0) return Result.fail(problems)
  const locks = tiers.flatMap(({ name: tier, policy }, level) =>
    policy.lock === true ? [{ is: true as const, tier, level }] : []
  )
  const lock = locks[0]
  const isLocked = (it: { readonly level: number }): boolean => lock !== undefined && it.level > lock.level
  const all = (list: Clause.List) => parsed.flatMap((it) => it.clauses.filter((clause) => clause.list === list))
  const open = (list: Clause.List) => all(list).filter((it) => !isLocked(it))
  const said = <A>(of: (policy: Policy) => A | undefined): ReadonlyArray<Said<A>> =>
    tiers.flatMap(({ name, policy }, level) => {
      const is = of(policy)
      return is === undefined ? [] : [{ is, tier: name, level }]
    })
  const defaults = said((it) => it.default)
  // a default that nobody above the lock gives is locked like one that is given
  const isGiven = defaults.some((it) => !isLocked(it))
  const skipped = (of: (policy: Policy) => ReadonlyArray<string> | undefined): ReadonlyMap<string, string> =>
    new Map(
      said(of).filter((it) => !isLocked(it)).toReversed()
        .flatMap(({ is, tier }) => is.map((name) => [name, tier] as const))
    )
  return Result.succeed({
    allow: open("allow"),
    ask: parsed.flatMap((it) => it.clauses.filter(({ list }) => list === "ask" || list === "askAlways")),
    deny: all("deny"),
    reviewAllow: open("review.allow"),
    reviewDeny: open("review.deny"),
    defaults: isGiven ? defaults : [{ is: "cautious", tier: lock?.tier ?? "", level: lock?.level ?? 0 }, ...defaults],
    modes: said((it) => it.mode).filter((it) => it.is !== "ask" && (it.is !== "acceptEdits" || !isLocked(it))),
    sandboxed: said((it) => it.sandboxed).find((it) => !isLocked(it)),
    skipApproval: skipped((it) => it.skipApproval),
    skipProvenance: skipped((it) => it.skipProvenance),
    locks,
    locked: (["allow", "review.allow", "review.deny"] as const).flatMap((list) => all(list).filter(isLocked))
  })
}

/** The entries of a policy, with the list that each is in. */
export const entriesOf = (
  policy: Policy
): ReadonlyArray<{ readonly list: Clause.List; readonly index: number; readonly entry: Clause.Entry }> =>
  ([
    ["allow", policy.allow],
    ["ask", policy.ask],
    ["askAlways", policy.askAlways],
    ["deny", policy.deny],
    ["review.allow", policy.review?.allow],
    ["review.deny", policy.review?.deny]
  ] as const).flatMap(([list, entries = []]) => entries.map((entry, index) => ({ list, index, entry })))

const parseOne = (
  { name: tier, policy }: Tier,
  level: number,
  tools: ReadonlyArray<string> | undefined,
  expects: (tool: string) => boolean
): { readonly clauses: ReadonlyArray<Clause.Parsed>; readonly problems: ReadonlyArray<Problem> } => {
  const problems: Array<Problem> = []
  const at = tier === "" ? "" : `${tier}.`
  const isHere = (tool: string): boolean => tools === undefined || expects(tool)
  const clauses = entriesOf(policy).flatMap(({ entry, index, list }): ReadonlyArray<Clause.Parsed> => {
    const path = `${at}${list}[${index}]`
    const parsed = Clause.parse(entry, { tier, level, list, index })
    if (Result.isFailure(parsed)) {
      problems.push(...parsed.failure.map((it) => ({ ...it, path: `${path}${it.path}` })))
      return []
    }
    const { tool } = parsed.success
    if (isHere(tool) || tools!.some((it) => PermissionPattern.names(parsed.success, it))) return [parsed.success]
    problems.push({
      path,
      problem: `there is no tool ${JSON.stringify(tool)}`,
      expected: `one of ${tools!.join(", ")}`
    })
    return []
  })
  for (const key of ["skipApproval", "skipProvenance"] as const) {
    for (const [index, name] of (policy[key] ?? []).entries()) {
      const wrong = (problem: string, expected: string) =>
        problems.push({ path: `${at}${key}[${index}]`, problem: `${JSON.stringify(name)}: ${problem}`, expected })
      if (/[*?\s()]/.test(name)) wrong("a tool's own condition is skipped by its exact name", "the name of one tool")
      else if (!isHere(name) && !tools!.includes(name)) wrong("there is no such tool", `one of ${tools!.join(", ")}`)
    }
  }
  return { clauses, problems }
}

/** Tiers are known by their names. */
const namesOf = (tiers: ReadonlyArray<Tier>): ReadonlyArray<Problem> =>
  tiers.flatMap(({ name }, index) =>
    tiers.findIndex((it) => it.name === name) < index || (name === "" && tiers.length > 1)
      ? [{ path: `tiers[${index}].name`, problem: `it is ${JSON.stringify(name)}`, expected: "a name of its own" }]
      : []
  )
