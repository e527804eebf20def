/**
 * A walk over everything that can happen under a rule set, as far as its rules tell moments apart: which tools come to
 * run, whether the start tools can all succeed, whether the work can end. Exact for small sets. Pure.
 *
 * Sets of tools are the bits of a number.
 */
import * as RuleIndex from "../core/rules/RuleIndex.ts"
import type { Required, RuleSet, ToolRules } from "../core/rules/RuleIndex.ts"
import type { Scope } from "../core/rules/RuleKind.ts"
import type { ToolRule } from "../core/rules/RuleKinds.ts"
import { namesIn } from "../core/rules/RuleNames.ts"
import * as RuleProblems from "../core/rules/RuleProblems.ts"
import { isOneScope, type Walk, widthOf } from "../core/rules/RuleReach.ts"
import { quote } from "../core/rules/RuleWords.ts"
import type { Problem } from "../core/vocabulary/ConfigurationError.ts"

/**
 * Gives everything that is wrong with a rule set, as `RuleSet.problems` does, and tries every order of calls: no tool
 * is left that can never run, and no work that can never end. Large sets, of some twenty tools or more, are only
 * checked as `RuleSet.problems` checks them.
 */
export const problems = (
  rules: ReadonlyArray<unknown>,
  known?: ReadonlyMap<string, RuleProblems.RuleTool>,
  expects?: (tool: string) => boolean
): ReadonlyArray<Problem> =>
  RuleProblems.problems(rules, known, expects, (set, isComplete) => walk(isComplete ? set : withAnother(set)))

/**
 * Gives what a rule set without problems can be led into: an order of calls after which something that it requires can
 * never succeed. Large sets are not checked.
 */
export const warnings = (
  rules: ReadonlyArray<ToolRule>,
  known?: ReadonlyMap<string, RuleProblems.RuleTool>
): ReadonlyArray<Problem> => {
  const all = RuleProblems.placed(rules, known ?? new Map()) as ReadonlyArray<RuleProblems.Placed>
  const given = all.map(({ rule }) => rule)
  const names = new Set([...known?.keys() ?? [], ...namesIn(given)])
  const isComplete = known !== undefined && names.size === known.size
  const set = RuleIndex.make(given, isComplete ? names : [...names, anotherTool])
  const found = trap(set, set.required)
  if (found === undefined) return []
  const { order, required, start } = found
  const { rule, tool } = start ?? required ?? set.starts[0]!
  return [{
    path: all.find((it) => it.rule === rule)!.path,
    problem: `after ${order.map((it) => it === anotherTool ? "another tool" : quote(it)).join(", then ")} ` +
      `${quote(tool)} can never succeed, and it is required`,
    expected: `rules under which ${quote(tool)} can still come then`
  }]
}

/** A moment of a process, as far as rules ask. */
interface Moment {
  /** What has succeeded, of the tools that rules ask about. */
  readonly done: number
  /** What the last success lets follow. */
  readonly next: number
  /** How often each tool with a cap has run. */
  readonly counts: ReadonlyArray<number>
}

/** More moments than these are not looked at. */
const maxMoments = 5_000

/** More tools than these are no small set. */
const maxTools = 24

/** More ways to go on after one tool are not told apart. */
const maxOutputs = 256

/** No tool has this name. */
const anotherTool = ""

/** Where more tools exist than are known, those may come before and after. */
const withAnother = (set: RuleSet): RuleSet => RuleIndex.make(set.rules, [...set.tools, anotherTool])

/** Walks until everything is known; `undefined` where a set is too large for that. */
const walk = (set: RuleSet): Walk | undefined => {
  const table = tableOf(set, set.required)
  if (table === undefined) return undefined
  const { asked, bound, caps, first, tools } = table
  const all = 2 ** tools.length - 1
  let [runnable, followed, starts, ends] = [0, 0, hasStarted(table, 0), false]
  const isKnown = () => runnable === all && (followed & bound) === bound && starts && ends
  const begin: Moment = { done: 0, next: first, counts: caps.map(() => 0) }
  const open = [begin]
  const seen = new Map<string, Array<ReadonlyArray<number>>>()
  isNew(seen, begin)
  for (const moment of open) {
    if (open.length > maxMoments) return undefined
    ends ||= mayEnd(table, moment.done, runnable)
    if (isKnown()) break
    for (const [index, tool] of tools.entries()) {
      const bit = 1 << index
      if (!isInOrder(table, tool, moment) || (tool.excludes & moment.done) !== 0) continue
      if (tool.cap !== undefined && moment.counts[tool.cap]! >= caps[tool.cap]!) continue
      runnable |= bit
      const done = moment.done | (bit & asked)
      starts ||= hasStarted(table, done)
      const counts = moment.counts.map((count, cap) => cap === tool.cap ? count + 1 : count)
      for (const next of tool.after) {
        const then = { done, next, counts }
        if (tools.some((it) => isInOrder(table, it, then))) followed |= bit
        if (isNew(seen, then)) open.push(then)
      }
    }
  }
  // what a batch requires may succeed in another of its processes
  ends ||= open.some(({ done }) => mayEnd(table, done, runnable))
  const namesOf = (bits: number) => new Set(tools.flatMap((it, index) => (bits & (1 << index)) === 0 ? [] : it.names))
  return { runnable: namesOf(runnable), followed: namesOf(followed | (all & ~bound)), starts, ends }
}

/**
 * A shortest order of successes after which something that has to succeed never can any more, and what that is.
 * Undefined if no order does that, or if the set is large.
 */
const trap = (set: RuleSet, needed: ReadonlyArray<Required>): Trap | undefined => {
  const table = tableOf(set, needed)
  if (table === undefined || (needed.length === 0 && set.starts.length === 0)) return undefined
  const { caps, first, tools } = table
  const all = 2 ** tools.length - 1
  const moments: Array<Step> = [{ moment: { done: 0, next: first, counts: caps.map(() => 0) }, from: -1, tool: -1 }]
  const places = new Map([[keyOf(moments[0]!.moment), 0]])
  /** From where each moment is come to. */
  const before: Array<Array<number>> = [[]]
  for (let place = 0; place < moments.length; place++) {
    if (moments.length > maxMoments) return undefined
    const { moment } = moments[place]!
    for (const [index, tool] of tools.entries()) {
      if (!isInOrder(table, tool, moment) || (tool.excludes & moment.done) !== 0) continue
      const isCapped = tool.cap !== undefined && caps[tool.cap]! <= maxCounted
      if (isCapped && moment.counts[tool.cap!]! >= caps[tool.cap!]!) continue
      const done = moment.done | ((1 << index) & table.asked)
      const counts = isCapped ? moment.counts.map((it, cap) => cap === tool.cap ? it + 1 : it) : moment.counts
      for (const next of tool.after) {
        const then = { done, next, counts }
        const key = keyOf(then)
        const known = places.get(key)
        if (known === undefined) {
          places.set(key, moments.length)
          before.push([place])
          moments.push({ moment: then, from: place, tool: index })
        } else before[known]!.push(place)
      }
    }
  }
  /** Moments from which all that is required can still succeed. */
  const good = new Set<number>()
  const open = moments.flatMap(({ moment: { done } }, place) =>
    hasStarted(table, done) && missing(table, done, all).length === 0 ? [place] : []
  )
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    if (good.has(place)) continue
    good.add(place)
    open.push(...before[place]!)
  }
  const end = moments.findIndex((_, place) => !good.has(place))
  if (end === -1) return undefined
  const order: Array<string> = []
  for (let at = end; moments[at]!.from !== -1; at = moments[at]!.from) {
    order.unshift(tools[moments[at]!.tool]!.names[0]!)
  }
  const { done } = moments[end]!.moment
  const [required] = missing(table, done, all)
  const start = set.starts.find((it) => tools.some(({ bit, names }) => names.includes(it.tool) && (bit & done) === 0))
  return { order, required: needed[required ?? -1], start: hasStarted(table, done) ? undefined : start }
}

/** An order of successes that leads nowhere. */
interface Trap {
  readonly order: ReadonlyArray<string>
  /** What can never succeed behind it, and is required before the end. */
  readonly required: Required | undefined
  /** The same of a tool that has to succeed before all others. */
  readonly start: RuleSet["starts"][number] | undefined
}

/** How a moment is come to first: from another one, by a tool. */
interface Step {
  readonly moment: Moment
  readonly from: number
  readonly tool: number
}

/** Higher caps are not counted: an order that exhausts one has done much else before. */
const maxCounted = 3

const keyOf = ({ counts, done, next }: Moment): string => `${done} ${next} ${counts.join()}`

/** Places of what is required and has not succeeded. */
const missing = ({ required }: Table, done: number, runnable: number): ReadonlyArray<number> =>
  required.flatMap(({ isShared, tool, when }, place) =>
    (when & ~done) === 0 && ((isShared ? done | runnable : done) & tool) === 0 ? [place] : []
  )

/** What the rules say of one tool, or of all those that no rule names. */
interface Entry {
  readonly names: ReadonlyArray<string>
  readonly isStart: boolean
  readonly bit: number
  readonly needs: number
  readonly forbids: number
  /** Those of which it is the only one that may be used. */
  readonly excludes: number
  /** Which of the caps is its own. */
  readonly cap: number | undefined
  /** What may follow it, for each way to go on. */
  readonly after: ReadonlyArray<number>
}

interface Table {
  readonly tools: ReadonlyArray<Entry>
  readonly caps: ReadonlyArray<number>
  /** Tools of which some rule asks whether they succeeded. */
  readonly asked: number
  /** Tools after which something has to follow, by rules. */
  readonly bound: number
  /** What may come first. */
  readonly first: number
  readonly allStarts: number
  readonly anyStart: number
  readonly exits: number
  readonly required: ReadonlyArray<{ readonly tool: number; readonly when: number; readonly isShared: boolean }>
}

const tableOf = (set: RuleSet, needed: ReadonlyArray<Required>): Table | undefined => {
  const named = new Set(namesIn(set.rules))
  // those that no rule names are all the same to it, unless each of them has to succeed
  const isOne = (tool: string) => named.has(tool) || needed.some((it) => it.tool === tool)
  const others = set.tools.filter((it) => !isOne(it))
  const classes = [...set.tools.filter(isOne).map((it) => [it]), ...others.length === 0 ? [] : [others]]
  if (classes.length > maxTools || !isOneScope(set)) return undefined
  const index = new Map(classes.flatMap((names, at) => names.map((name) => [name, at] as const)))
  // what counts in less than where something is needed may have been otherwise there
  const width = widthOf(set)
  const isFinal = ({ scope }: { readonly scope: Scope }) => RuleIndex.isWithin(width, scope)
  const bitsOf = (names: ReadonlyArray<string>): number =>
    names.reduce((bits, name) => index.has(name) ? bits | (1 << index.get(name)!) : bits, 0)
  const rules = classes.map(([name]) => set.forTool(name!))
  const caps: Array<number> = []
  const all = 2 ** classes.length - 1
  /** What may come right after the tool, or first, as far as those that follow say it. */
  const heirs = (tool: string | undefined): number =>
    rules.reduce((bits, { onlyAfter }, at) => {
      const isHeir = onlyAfter.length === 0 ||
        (tool !== undefined && onlyAfter.some(({ tools }) => tools.includes("*") || tools.includes(tool)))
      return isHeir ? bits | (1 << at) : bits
    }, 0)
  let bound = 0
  let isSmall = true
  const tools = classes.map((names, at): Entry => {
    const { groups, maxCalls, needs, notAfter, onlyNext, routes: outputs, start } = rules[at]!
    const most = Math.min(...maxCalls.filter(isFinal).map(({ max }) => max * names.length))
    const own = onlyNext.reduce((bits, it) => bits & bitsOf(it.tools), all) & heirs(names[0])
    const routes = routesOf(outputs, bitsOf, all)
    if (routes === undefined) isSmall = false
    const after = new Set((routes ?? []).map((it) => it.next & own))
    if (onlyNext.length + outputs.length > 0 && routes?.some((it) => !it.isEnd) === true) bound |= 1 << at
    return {
      names,
      isStart: start !== undefined,
      bit: 1 << at,
      needs: bitsOf(needs.flatMap((it) => it.tools)),
      forbids: bitsOf(notAfter.filter(isFinal).flatMap((it) => it.tools)),
      excludes: bitsOf(groups.filter(isFinal).flatMap((it) => it.tools)) & ~(1 << at),
      cap: most === Infinity ? undefined : caps.push(most) - 1,
      after: Array.from(after)
    }
  })
  if (!isSmall) return undefined
  const startsOf = (isAny: boolean) =>
    bitsOf(set.starts.filter((it) => (it.mode === "any") === isAny).map((it) => it.tool))
  const allStarts = startsOf(false)
  const anyStart = startsOf(true)
  const exits = rules.reduce((bits, it, at) => it.exits ? bits | (1 << at) : bits, 0)
  const required = needed.map(({ scope, tool, when = [] }) => ({
    tool: bitsOf([tool]),
    when: bitsOf(when),
    isShared: scope !== "process"
  }))
  const asked = tools.reduce((bits, it) => bits | it.needs | it.forbids | it.excludes, 0) |
    required.reduce((bits, it) => bits | it.tool | it.when, allStarts | anyStart | exits)
  return { tools, caps, asked, bound, first: heirs(undefined), allStarts, anyStart, exits, required }
}

/** Where the outputs of a tool may lead, each way once; an end is where a strict condition has nothing. */
const routesOf = (
  outputs: ToolRules["routes"],
  bitsOf: (names: ReadonlyArray<string>) => number,
  all: number
): ReadonlyArray<{ readonly next: number; readonly isEnd: boolean }> | undefined => {
  let routes = [{ next: all, isEnd: false }]
  for (const path of new Set(outputs.map((it) => it.path))) {
    const rules = outputs.filter((it) => it.path === path)
    const ways = [...rules.flatMap((it) => it.values), noCase].map((value) => {
      const found = rules.map(({ to }) => {
        const tools = to(value)
        return tools === undefined ? all : bitsOf(tools)
      })
      return { next: found.reduce((bits, it) => bits & it, all), isEnd: found.includes(0) }
    })
    const both = routes.flatMap((a) => ways.map((b) => ({ next: a.next & b.next, isEnd: a.isEnd || b.isEnd })))
    routes = Array.from(new Map(both.map((it) => [`${it.next} ${it.isEnd}`, it])).values())
    if (routes.length > maxOutputs) return undefined
  }
  return routes
}

/** A value that no case has. */
const noCase = Symbol()

const isInOrder = ({ allStarts, anyStart }: Table, tool: Entry, { done, next }: Moment): boolean =>
  (next & tool.bit) !== 0 && (tool.needs & ~done) === 0 && (tool.forbids & done) === 0 &&
  (tool.isStart || ((allStarts & ~done) === 0 && (anyStart === 0 || (anyStart & done) !== 0)))

const hasStarted = ({ allStarts, anyStart }: Table, done: number): boolean =>
  (allStarts & ~done) === 0 && (anyStart === 0 || (anyStart & done) !== 0)

const mayEnd = (table: Table, done: number, runnable: number): boolean =>
  (table.exits === 0 || (table.exits & done) !== 0) && missing(table, done, runnable).length === 0

/** Notes a moment, unless there was one like it from which no less could come. */
const isNew = (seen: Map<string, Array<ReadonlyArray<number>>>, { counts, done, next }: Moment): boolean => {
  const key = `${done} ${next}`
  const before = seen.get(key)
  if (before === undefined) {
    seen.set(key, [counts])
    return true
  }
  if (before.some((it) => it.every((count, cap) => count <= counts[cap]!))) return false
  before.push(counts)
  return true
}
