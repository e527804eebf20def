/**
 * Examples of every kind of call of a tool that policies can tell apart. Pure.
 *
 * Policies look at the targets of a call through patterns, at its arguments and roles through conditions, and at a few
 * facts with two or three values. So there are finitely many kinds of calls, and `ToolPolicy` decides one call of each.
 * Calls with one target stand for those with more, but for one case: with a second target a call can be asked about
 * that would be denied without it.
 */
import * as Result from "effect/Result"
import * as Clause from "../core/gates/Clause.ts"
import * as PermissionPattern from "../core/gates/PermissionPattern.ts"
import type { Parsed } from "../core/gates/Policy.ts"
import { TargetKind } from "../core/vocabulary/TargetKind.ts"
import * as ArgumentClasses from "./ArgumentClasses.ts"
import * as PatternClasses from "./PatternClasses.ts"
import * as PolicyQuestion from "./PolicyQuestion.ts"

type Target = PermissionPattern.Target

/** A tool, and the forms that targets of its calls may have. */
export interface Tool {
  readonly subject: PolicyQuestion.Question["tool"]
  /** Kinds of its targets; absent: any. */
  readonly kinds?: ReadonlyArray<Target["kind"]> | undefined
  /** Whether its targets have other spellings; absent: they may have. */
  readonly isSpelled?: boolean | undefined
  /** Tools that may run what its targets name. */
  readonly runBy?: ReadonlyArray<string> | undefined
  /** Whether its calls may run in a sandbox; absent: they may. */
  readonly isSandboxed?: boolean | undefined
}

/** Limit of the calls that are decided for a tool. */
const mostExamples = 100_000

/** Every kind of target. */
export const kinds: ReadonlyArray<Target["kind"]> = [undefined, ...TargetKind.literals]

/** A call, and what each policy says of it. */
export interface Example {
  readonly question: PolicyQuestion.Question
  readonly verdicts: ReadonlyArray<PolicyQuestion.Verdict>
}

/**
 * Gives one call of each kind, plain ones first. Fails with a reason if the policies have too many patterns or
 * conditions that overlap.
 */
export const of = (
  policies: ReadonlyArray<Parsed>,
  tool: Tool
): Result.Result<Iterable<Example>, string> => {
  const lists = policies.map((it) => listsOf(it, tool.subject))
  const clauses = Array.from(new Set(policies.flatMap((it) => clausesOf(it, tool.subject))))
  const given = ArgumentClasses.classesOf(clauses, tool.subject.jsonSchema)
  if (Result.isFailure(given)) return Result.fail(given.failure)
  const kinds = new Map<string, Kind>()
  for (const it of given.success) {
    const isOn = new Set(clauses.filter((clause, index) => PolicyQuestion.applies(clause, it.holds[index])))
    const key = clauses.map((it) => isOn.has(it) ? "+" : "-").join("")
    if (kinds.has(key)) continue
    const classes = PatternClasses.classesOf(lists.flatMap((it) => chainsOf(it, isOn)))
    if (Result.isFailure(classes)) return Result.fail(classes.failure)
    const strict = classes.success.filter(({ firsts }) =>
      lists.some(({ stricter }, index) => {
        const first = firsts[index * chainsPerPolicy]!
        return first !== -1 && first < stricter.filter((it) => isOn.has(it)).length
      })
    )
    kinds.set(key, {
      given: it,
      texts: classes.success.map(({ text }) => text),
      strict: strict.map(({ text }) => text)
    })
  }
  const forms = formsOf(tool).length
  const count = Array.from(kinds.values()).reduce(
    (sum, { strict, texts }) => sum + texts.length * forms * (tool.isSpelled === false ? 1 : 1 + strict.length),
    0
  )
  if (count > mostExamples) return Result.fail(`there are ${count} kinds of calls, more than ${mostExamples}`)
  const judges = policies.map(PolicyQuestion.judge)
  const isSandboxed = tool.isSandboxed !== false && policies.some((it) => it.sandboxed !== undefined)
  return Result.succeed(
    decided(Array.from(kinds.values()), tool, isSandboxed, (question) => ({
      question,
      verdicts: judges.map((it) => it(question))
    }))
  )
}

/** Arguments and roles, and texts of targets that matter with them. */
interface Kind {
  readonly given: ArgumentClasses.Class
  readonly texts: ReadonlyArray<string>
  /** Those that a clause denies or asks about. */
  readonly strict: ReadonlyArray<string>
}

const decided = function*(
  kinds: ReadonlyArray<Kind>,
  tool: Tool,
  isSandboxed: boolean,
  decide: (question: PolicyQuestion.Question) => Example
): Iterable<Example> {
  const { declaresTargets } = tool.subject
  const paired = new Set<string>()
  for (const { given: { args, roles }, strict, texts } of kinds) {
    const targets = declaresTargets ? targetsOf(texts, strict, tool) : []
    for (const sandbox of isSandboxed ? sandboxes : [undefined]) {
      for (const needsApproval of approvalOf(tool)) {
        const base = { tool: tool.subject, args, needsApproval, roles, ...(sandbox === undefined ? {} : { sandbox }) }
        const profiles = new Map<string, Example>()
        yield decide({ ...base, targets: [] })
        for (const target of targets) {
          const example = decide({ ...base, targets: [target] })
          yield example
          const key = example.verdicts.map(PolicyQuestion.reasonOf).join("\n")
          if (!profiles.has(key)) profiles.set(key, example)
        }
        for (const [key, targets] of pairsOf(profiles)) {
          // what decides about a pair is what decides about each of its targets
          if (!paired.has(`${needsApproval}${key}`)) yield decide({ ...base, targets })
          paired.add(`${needsApproval}${key}`)
        }
        if (declaresTargets) yield decide({ ...base, targets: undefined })
      }
    }
  }
}

/** How a call may be confined, as far as policies look at it. */
export const sandboxes: ReadonlyArray<PolicyQuestion.Question["sandbox"]> = [
  undefined,
  { _tag: "Confined", driver: "sandbox", network: "none", holds: [], missing: [] }
]

/** What a tool may say of a call. */
export const approvalOf = ({ subject: { needsApproval } }: Tool): ReadonlyArray<boolean> =>
  needsApproval === undefined || needsApproval === false
    ? [false]
    : needsApproval === true
    ? [true]
    : [false, true]

/** The clauses of a policy that are about a tool. */
export const clausesOf = (policy: Parsed, subject: Tool["subject"]): ReadonlyArray<Clause.Parsed> =>
  Array.from(new Set(Object.values(listsOf(policy, subject)).flat()))

/** The clauses that are about a tool, in the order in which the first that applies decides. */
const listsOf = (policy: Parsed, subject: Tool["subject"]) => {
  const { name } = subject
  const naming = (clauses: ReadonlyArray<Clause.Parsed>) => clauses.filter((it) => PermissionPattern.names(it, name))
  const ask = Clause.strictFor(policy.ask, subject)
  const reviewAllow = naming(policy.reviewAllow)
  const allow = naming(policy.allow)
  const isAskedBelow = policy.locks.some((lock) => ask.some((it) => it.level > lock.level))
  return {
    stricter: [
      ...Clause.strictFor(policy.deny, subject),
      ...ask.filter((it) => it.list === "askAlways"),
      ...ask.filter((it) => it.list === "ask")
    ],
    allow,
    // where only tiers below a lock ask, it matters which is the uppermost of them, and what would hold otherwise
    askingTiers: isAskedBelow ? ask.toSorted((one, other) => one.level - other.level) : [],
    allowBelow: isAskedBelow ? allow : [],
    reviewAllow,
    // where the tool itself wants approval, only clauses with its exact name count
    reviewNamed: reviewAllow.filter((it) => it.tool === name),
    reviewDeny: naming(policy.reviewDeny)
  }
}

const chainsPerPolicy = 6

const chainsOf = (
  { allow, allowBelow, askingTiers, reviewAllow, reviewDeny, reviewNamed, stricter }: ReturnType<typeof listsOf>,
  isOn: ReadonlySet<Clause.Parsed>
): ReadonlyArray<ReadonlyArray<string>> =>
  [[...stricter, ...allow], askingTiers, allowBelow, reviewAllow, reviewNamed, reviewDeny].map((clauses) =>
    clauses.filter((it) => isOn.has(it)).map(({ target }) => target ?? "*")
  )

/** The forms that a target of a tool's calls may have. */
export const formsOf = ({ kinds: own = kinds, runBy = [] }: Tool): ReadonlyArray<Omit<Target, "text">> => [
  ...own.map((kind) => kind === undefined ? {} : { kind }),
  ...runBy.map((it) => ({ runBy: it }))
]

/** One target of each class in each form; of other spellings those that a stricter clause matches. */
const targetsOf = (
  texts: ReadonlyArray<string>,
  strict: ReadonlyArray<string>,
  tool: Tool
): ReadonlyArray<Target> => {
  const plain = formsOf(tool).flatMap((form) => texts.map((text) => ({ text, ...form })))
  return tool.isSpelled === false
    ? plain
    : [...plain, ...plain.flatMap((it) => strict.map((text) => ({ ...it, spellings: [text] })))]
}

/** Pairs of targets of which one is asked about alone and the other is denied alone, by one of the policies. */
const pairsOf = (
  profiles: ReadonlyMap<string, Example>
): ReadonlyArray<readonly [key: string, targets: ReadonlyArray<Target>]> => {
  const all = Array.from(profiles)
  return all.flatMap(([key, one]) =>
    all.filter(([, other]) =>
      one.verdicts.some((it, index) => it.decision._tag === "Deny" && other.verdicts[index]!.decision._tag === "Ask")
    ).map(([otherKey, other]) =>
      [`${key}\n\n${otherKey}`, [...one.question.targets ?? [], ...other.question.targets ?? []]] as const
    )
  )
}
