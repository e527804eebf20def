/**
 * Rules that people's approvals on record speak for: calls that were approved again and again and never denied. Pure.
 *
 * A rule is proposed only if it would have let the approved calls run, and none that a person denied. It is never
 * proposed for calls that are asked about each time or by several people, for protected or exact targets, or where the
 * tool itself wants approval. Nothing applies a proposal: that is for a person to decide.
 */
import * as Result from "effect/Result"
import * as PermissionPattern from "../core/gates/PermissionPattern.ts"
import * as Policy from "../core/gates/Policy.ts"
import * as PolicyDiff from "./PolicyDiff.ts"
import * as PolicyQuestion from "./PolicyQuestion.ts"
import * as PolicyReplay from "./PolicyReplay.ts"
import { isRedacted, type Recorded } from "./RecordedCalls.ts"

/** How much has to speak for a rule. */
export interface Options {
  /** Approvals by people. Default 3. */
  readonly approvals?: number | undefined
  /** Different targets that a folder, a domain or the beginning of a command has to cover. Default 3. */
  readonly distinct?: number | undefined
}

/** A call, and how often it is on record. */
export interface Counted {
  readonly tool: string
  readonly targets: ReadonlyArray<string>
  readonly count: number
}

/** A rule to allow, and what speaks for and against it. */
export interface Suggestion {
  readonly tool: string
  /** The entry for `allow`, such as `run_command(npm test)`. */
  readonly rule: string
  /** Approvals by people that the rule would have spared. */
  readonly approvals: number
  /** Who gave them, where that is known. */
  readonly people: ReadonlyArray<string>
  /** The calls that were approved, the most frequent first. */
  readonly approved: ReadonlyArray<Counted>
  /** Other calls on record that nobody approved and that would have run. */
  readonly others: ReadonlyArray<Counted>
  /** Kinds of calls that would run in addition, by the comparison of both policies. */
  readonly beyond: ReadonlyArray<PolicyDiff.Difference>
}

/** Proposes rules for the lowest of these tiers, those that spare the most approvals first. */
export const suggest = (
  tiers: ReadonlyArray<Policy.Tier>,
  calls: ReadonlyArray<Recorded>,
  known: PolicyReplay.Known,
  { approvals: least = 3, distinct = 3 }: Options = {}
): ReadonlyArray<Suggestion> => {
  const before = Policy.parseTiers(tiers)
  if (Result.isFailure(before)) return []
  // what the policy lets run by now needs no rule
  const asked = new Set(
    PolicyReplay.replay(before.success, calls, known).filter(({ would }) => would !== "allow").map(({ call }) => call)
  )
  const open = calls.filter((it) => asked.has(it))
  const found: Array<Suggestion> = []
  let left = open.filter(isApproved)
  for (const rule of candidatesOf(left, known, distinct)) {
    const about = open.filter(({ tool }) => tool === rule.tool)
    const covered = left.filter((it) => it.tool === rule.tool && covers(rule, it))
    if (covered.length < least) continue
    const after = Policy.parseTiers([
      ...tiers.slice(0, -1),
      ...tiers.slice(-1).map((it) => ({
        ...it,
        policy: { ...it.policy, allow: [...it.policy.allow ?? [], rule.source] }
      }))
    ])
    if (Result.isFailure(after)) continue
    const replayed = PolicyReplay.replay(after.success, about, known)
    const runs = new Set(replayed.filter(({ would }) => would === "allow").map(({ call }) => call))
    const mayRun = new Set(
      replayed.filter(({ would }) => would === "allow" || would === "undecidable").map(({ call }) => call)
    )
    const spared = covered.filter((it) => runs.has(it))
    if (spared.length < least || about.some((it) => it.answer === "denied" && mayRun.has(it) && mayCover(rule, it))) {
      continue
    }
    if (rule.isWide && new Set(spared.map(textOf)).size < distinct) continue
    found.push({
      tool: rule.tool,
      rule: rule.source,
      approvals: spared.length,
      people: Array.from(new Set(spared.flatMap((it) => it.person ?? []))),
      approved: counted(spared),
      others: othersOf(about.filter((it) => runs.has(it)), spared),
      beyond: beyondOf(before.success, after.success, rule.tool, known)
    })
    const isSpared = new Set(spared)
    left = left.filter((it) => !isSpared.has(it))
  }
  return found.sort((a, b) => b.approvals - a.approvals)
}

/** A person approved the call alone, and may have approved the next one without looking. */
const isApproved = (call: Recorded): boolean =>
  call.answer === "approved" && !call.isGuarded && call.why !== "the tool needs approval" &&
  call.targets !== undefined && call.targets.length === 1 && !/[*?]/.test(call.targets[0]!)

interface Candidate {
  readonly source: string
  readonly tool: string
  readonly target: string
  /** It covers more than one text. */
  readonly isWide: boolean
}

/** Rules that cover approved calls: the widest that enough different targets speak for come first. */
const candidatesOf = (
  calls: ReadonlyArray<Recorded>,
  known: PolicyReplay.Known,
  distinct: number
): ReadonlyArray<Candidate> => {
  const texts = new Map<string, { readonly rule: Candidate; readonly texts: Set<string>; count: number }>()
  for (const call of calls) {
    const text = textOf(call)
    const [target] = known.targets(call) ?? []
    const wider = target === undefined || target.text !== text ? [] : PermissionPattern.widerThan([target])
    for (const [index, pattern] of [text, ...wider].entries()) {
      const source = `${call.tool}(${pattern})`
      const entry = texts.get(source) ??
        { rule: { source, tool: call.tool, target: pattern, isWide: index > 0 }, texts: new Set<string>(), count: 0 }
      entry.texts.add(text)
      entry.count++
      texts.set(source, entry)
    }
  }
  return Array.from(texts.values())
    .filter(({ rule, texts }) => !rule.isWide || texts.size >= distinct)
    .sort((a, b) =>
      Number(b.rule.isWide) - Number(a.rule.isWide) || b.count - a.count ||
      // of two that cover the same, the narrower
      b.rule.target.length - a.rule.target.length
    )
    .map(({ rule }) => rule)
}

const covers = ({ source, tool }: Candidate, { targets = [] }: Recorded): boolean =>
  targets.length > 0 &&
  PermissionPattern.covers([PermissionPattern.parseUnsafe(source)], tool, targets.map((text) => ({ text })))

/** Any rule may cover what is not on record as it was. */
const mayCover = (rule: Candidate, call: Recorded): boolean => isRedacted(call.targets) || covers(rule, call)

const textOf = ({ targets = [] }: Recorded): string => targets[0] ?? ""

const othersOf = (runs: ReadonlyArray<Recorded>, approved: ReadonlyArray<Recorded>): ReadonlyArray<Counted> => {
  const known = new Set(approved.map(textOf))
  return counted(runs.filter((it) => !known.has(textOf(it))))
}

const counted = (calls: ReadonlyArray<Recorded>): ReadonlyArray<Counted> => {
  const counts = new Map<string, Counted>()
  for (const { targets = [], tool } of calls) {
    const key = JSON.stringify(targets)
    counts.set(key, { tool, targets, count: 1 + (counts.get(key)?.count ?? 0) })
  }
  return Array.from(counts.values()).sort((a, b) => b.count - a.count)
}

const beyondOf = (
  before: Policy.Parsed,
  after: Policy.Parsed,
  name: string,
  known: PolicyReplay.Known
): ReadonlyArray<PolicyDiff.Difference> => {
  const tool = known.tool(name)
  const tools = tool === undefined ? PolicyQuestion.natures(name).map((subject) => ({ subject })) : [tool]
  return PolicyDiff.diff(before, after, { tools, isOpen: false }).differences.filter(PolicyDiff.isLooser)
}
