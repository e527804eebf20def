/** What policies in tiers mean, spelt out entry by entry and without anything merged: the oracle of `ToolPolicy`. */
import type * as Clause from "../../src/core/gates/Clause.ts"
import type { Target } from "../../src/core/gates/PermissionPattern.ts"
import type * as Policy from "../../src/core/gates/Policy.ts"
import type { Given, Subject } from "../../src/core/gates/ToolPolicy.ts"
import { matches } from "../../src/internal/wildcard.ts"

type Answer = "yes" | "no" | "unknown"

/** A path into a list without a place in it, or into what has no parts. */
const unclear = Symbol("unclear")

const at = (value: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((found, key) => {
    if (found === undefined || found === null || found === unclear) return found
    if (typeof found !== "object") return unclear
    const part = Object.getOwnPropertyDescriptor(found, key)
    return part === undefined && Array.isArray(found) && Number.isNaN(Number(key)) ? unclear : part?.value
  }, value)

/** Whether one comparison holds for a value. */
export const compare = (operator: string, wanted: unknown, value: unknown): Answer => {
  if (value === unclear) return "unknown"
  const isMissing = value === undefined || value === null
  const is = (answer: boolean): Answer => answer ? "yes" : "no"
  if (operator === "exists") return is(isMissing !== wanted)
  if (operator === "eq" || operator === "like" || operator === "in") {
    if (isMissing) return "no"
    if (operator === "like") return typeof value === "string" ? is(matches(wanted as string, value)) : "unknown"
    const all = operator === "in" ? wanted as ReadonlyArray<unknown> : [wanted]
    if (all.some((it) => it === value)) return "yes"
    return all.every((it) => typeof it === typeof value) && !Number.isNaN(value) ? "no" : "unknown"
  }
  if (isMissing) return "unknown"
  if (operator === "ne") {
    return typeof value === typeof wanted && !Number.isNaN(value)
      ? is(value !== wanted)
      : "unknown"
  }
  if (typeof value !== "number" || Number.isNaN(value)) return "unknown"
  const number = wanted as number
  return is({ gt: value > number, gte: value >= number, lt: value < number, lte: value <= number }[operator]!)
}

/** Whether conditions hold for arguments. */
export const holds = (when: NonNullable<Clause.Clause["when"]>, args: unknown): Answer => {
  const answers = Object.entries(when).flatMap(([path, condition]) =>
    Object.entries(typeof condition === "object" ? condition : { eq: condition })
      .map(([operator, wanted]) => compare(operator, wanted, at(args, path)))
  )
  return answers.includes("no") ? "no" : answers.includes("unknown") ? "unknown" : "yes"
}

interface Entry {
  readonly tool: string
  readonly target: string | undefined
  /** Of its conditions and roles together. */
  readonly holds: Answer
  readonly level: number
  readonly isBare: boolean
}

const entry = (given: Clause.Entry, level: number, call: Given, name: string): Entry => {
  if (typeof given === "string") {
    const [, tool, target] = /^([^(]+)(?:\((.*)\))?$/s.exec(given)!
    return { tool: tool!, target, holds: "yes", level, isBare: true }
  }
  const { roles, target, tool, when } = given
  const has: Answer = roles === undefined
    ? "yes"
    : call.roles === undefined
    ? "unknown"
    : roles.some((it) => call.roles!.includes(it))
    ? "yes"
    : "no"
  // what acts as the tool has other arguments
  const meets = when === undefined
    ? "yes"
    : matches(/^[^(]+/.exec(tool)![0], name)
    ? holds(when, call.args)
    : "unknown"
  const both = [has, meets]
  return {
    tool,
    target,
    holds: both.includes("no") ? "no" : both.includes("unknown") ? "unknown" : "yes",
    level,
    isBare: roles === undefined && when === undefined
  }
}

/** What tiers say of a call: the outcome, whether it is asked each time, and what a reviewer may say. */
export const decide = (tiers: ReadonlyArray<Policy.Tier>, tool: Subject, call: Given) => {
  const policies = tiers.map((it) => it.policy)
  const lock = policies.findIndex((it) => it.lock === true)
  const isLocked = (level: number) => lock !== -1 && level > lock
  const list = (of: (policy: Policy.Policy) => ReadonlyArray<Clause.Entry> | undefined) =>
    policies.flatMap((policy, level) => (of(policy) ?? []).map((it) => entry(it, level, call, tool.name)))
  const loose = (of: Parameters<typeof list>[0]) => list(of).filter((it) => !isLocked(it.level))
  const [deny, ask, always] = [list((it) => it.deny), list((it) => it.ask), list((it) => it.askAlways)]
  const allow = loose((it) => it.allow)
  const said = policies.flatMap(({ default: it }, level) => it === undefined ? [] : [{ it, level }])
  const defaults = said.some(({ level }) => !isLocked(level))
    ? said.map(({ it }) => it)
    : ["cautious" as const, ...said.map(({ it }) => it)]
  const modes = policies.flatMap(({ mode }, level) => mode === "acceptEdits" && isLocked(level) ? [] : [mode])

  const runs = (name: string) =>
    (defaults.every((it) => it === "allow") || allow.some((it) => matches(it.tool, name))) &&
    ![...deny, ...ask, ...always].some((it) => it.isBare && it.target === undefined && matches(it.tool, name))
  const targets = call.targets?.map((it) =>
    it.runBy !== undefined && runs(it.runBy) ? { ...it, kind: "protected" } : it
  )
  const names = [tool.name, ...tool.actsAs ?? []]
  const texts = (
    it: Target | { readonly text: string; readonly spellings?: ReadonlyArray<string> | undefined }
  ) => [it.text, ...it.spellings ?? []]
  const touches = (it: Entry) =>
    it.holds !== "no" &&
    (it.target === undefined || targets === undefined ||
      targets.some((one) => texts(one).some((text) => matches(it.target!, text))))
  const touch = (it: Entry) => names.some((name) => matches(it.tool, name)) && touches(it)
  const has = (...kinds: ReadonlyArray<string>) =>
    targets?.some(({ kind }) => kind !== undefined && kinds.includes(kind)) === true
  const covers = (entries: ReadonlyArray<Entry>, isGuarded: boolean) => {
    const own = entries.filter((it) => it.holds === "yes" && matches(it.tool, tool.name))
    if (isGuarded && has("protected", "always")) return false
    // a pattern for the whole tool is about no host
    if (!has("host") && own.some((it) => it.target === undefined)) return true
    return targets !== undefined && targets.length > 0 &&
      targets.every(({ kind, text }) =>
        kind !== "exact" &&
        own.some(({ target }) =>
          target !== undefined && matches(target, text) && (kind !== "host" || target.startsWith("host:"))
        )
      )
  }
  const isListed = covers(allow, false)
  const isGuarded = targets === undefined
    ? tool.guardsTargets
    : has("protected", "always") || (has("host") && !isListed)

  const outcomeOf = (it: (typeof defaults)[number]): "Allow" | "Ask" | "Deny" => {
    const isHarmless = tool.readOnly && !tool.openWorld
    return it === "allow" || (isHarmless && (it === "cautious" || it === "readOnly"))
      ? "Allow"
      : it === "ask" || it === "cautious"
      ? "Ask"
      : "Deny"
  }
  const judged = (defaults: ReadonlyArray<Parameters<typeof outcomeOf>[0]>) => {
    const denies = defaults.includes("deny")
    const outcomes = defaults.map(outcomeOf)
    const byDefault = modes.includes("acceptEdits") && tool.edits && !denies
      ? "Allow" as const
      : outcomes.includes("Deny")
      ? "Deny" as const
      : outcomes.includes("Ask")
      ? "Ask" as const
      : "Allow" as const
    return { denies, byDefault }
  }
  const skips = policies.some((it, level) => !isLocked(level) && it.skipApproval?.includes(tool.name) === true)
  const needs = call.needsApproval && !skips
  const isConfined = policies.some((it, level) => it.sandboxed === "allow" && !isLocked(level)) &&
    call.sandbox?._tag === "Confined" && call.sandbox.network === "none"

  const asking = [...ask, ...always].filter(touch)
  const isAlways = always.some(touch) || has("always")
  const reviewed = (): { readonly mayAllow: boolean; readonly mayDeny: boolean } => {
    const level = Math.min(...asking.map((it) => it.level))
    const may = loose((it) => it.review?.allow).filter((it) => it.level <= level && (!needs || it.tool === tool.name))
    return {
      mayAllow: !isGuarded && !always.some(touch) && covers(may, true),
      mayDeny: loose((it) => it.review?.deny).some((it) => matches(it.tool, tool.name) && touches(it))
    }
  }
  const asks = { outcome: "Ask" as const, isAlways, review: reviewed() }
  const plain = (outcome: "Allow" | "Ask" | "Deny") =>
    outcome === "Ask" ? asks : { outcome, isAlways: false, review: { mayAllow: false, mayDeny: false } }

  if (deny.some(touch)) return plain("Deny")
  if (modes.includes("denyAll")) return plain("Deny")
  if ((modes.includes("readOnly") || modes.includes("plan")) && !tool.readOnly) return plain("Deny")
  if (modes.includes("offline") && tool.openWorld) return plain("Deny")
  const isAllowed = !isGuarded && (isListed || isConfined)
  const otherwise = ({ byDefault, denies }: ReturnType<typeof judged>) => {
    if (isGuarded && (isListed ? !denies : byDefault !== "Deny")) return "Ask"
    if (needs && (isAllowed || !denies)) return "Ask"
    return isAllowed ? "Allow" : byDefault
  }
  if (asking.length > 0) {
    if (asking.some((it) => !isLocked(it.level))) return plain("Ask")
    // below a lock, what is denied is not asked about
    const isDenied = policies.some((it, level) => {
      if (it.lock !== true || asking.some((one) => one.level <= level)) return false
      const above = said.filter((one) => one.level <= level).map((one) => one.it)
      return otherwise(judged(above.length > 0 ? above : ["cautious"])) === "Deny"
    })
    return plain(isDenied ? "Deny" : "Ask")
  }
  return plain(otherwise(judged(defaults)))
}
