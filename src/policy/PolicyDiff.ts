/**
 * What two policies decide differently: which calls may run under one and not under the other, which are asked about,
 * which are denied, each with an example and with what decides it. Pure.
 *
 * It decides one call of every kind that the two policies can tell apart (`PolicyExamples`), so a kind of call that is
 * not listed is decided alike.
 */
import * as Result from "effect/Result"
import type { Parsed } from "../core/gates/Policy.ts"
import * as PatternClasses from "./PatternClasses.ts"
import * as PolicyExamples from "./PolicyExamples.ts"
import * as PolicyQuestion from "./PolicyQuestion.ts"

/** Calls that the first policy decides for one reason and the second for another, with another outcome. */
export interface Difference {
  readonly tool: string
  /** The tool is any that no policy names, such as this one. */
  readonly isAnyOther: boolean
  readonly example: PolicyQuestion.Question
  readonly from: PolicyQuestion.Verdict
  readonly to: PolicyQuestion.Verdict
}

/** What two policies decide differently. */
export interface Diff {
  readonly differences: ReadonlyArray<Difference>
  /** Tools whose calls could not be told apart, and why: nothing is said of them. */
  readonly undecided: ReadonlyArray<{ readonly tool: string; readonly problem: string }>
}

/** The tools that there are. */
export interface Options {
  readonly tools: ReadonlyArray<PolicyExamples.Tool>
  /** Whether there may be other tools, of which nothing but the name is known. */
  readonly isOpen: boolean
}

/** Compares two policies. */
export const diff = (from: Parsed, to: Parsed, { isOpen, tools }: Options): Diff => {
  const names = tools.map(({ subject }) => subject.name)
  const unknown = isOpen ? unknownNames([from, to], names) : Result.succeed([])
  const undecided: Array<Diff["undecided"][number]> = []
  const found = new Map<string, Difference>()
  const look = (tool: PolicyExamples.Tool, isAnyOther: boolean): void => {
    const examples = PolicyExamples.of([from, to], tool)
    const { name } = tool.subject
    if (Result.isFailure(examples)) {
      if (!undecided.some((it) => it.tool === name)) undecided.push({ tool: name, problem: examples.failure })
      return
    }
    for (const { question: example, verdicts } of examples.success) {
      const difference = { from: verdicts[0]!, to: verdicts[1]! }
      if (difference.from.outcome === difference.to.outcome) continue
      const key = keyOf(name, difference)
      if (!found.has(key)) found.set(key, { tool: name, isAnyOther, example, ...difference })
    }
  }
  for (const tool of tools) look(tool, false)
  if (Result.isFailure(unknown)) undecided.push({ tool: "*", problem: unknown.failure })
  else {
    for (const { isNamed, name } of unknown.success) {
      for (const subject of PolicyQuestion.natures(name)) {
        for (const needsApproval of [false, true]) look({ subject: { ...subject, needsApproval } }, !isNamed)
      }
    }
  }
  return { differences: Array.from(found.values()), undecided }
}

/** One text for differences with the same reasons. */
export const keyOf = (tool: string, { from, to }: Pick<Difference, "from" | "to">): string =>
  [tool, PolicyQuestion.reasonOf(from), PolicyQuestion.reasonOf(to)].join("\n")

/** Tells whether the second policy is looser about a call. */
export const isLooser = ({ from, to }: Pick<Difference, "from" | "to">): boolean =>
  PolicyQuestion.outcomes.indexOf(to.outcome) < PolicyQuestion.outcomes.indexOf(from.outcome)

/** Names of tools that policies are about and nobody knows, and one for each kind of name that they can tell apart. */
const unknownNames = (policies: ReadonlyArray<Parsed>, known: ReadonlyArray<string>) => {
  const patterns = Array.from(
    new Set(policies.flatMap((it) => [
      ...[it.deny, it.ask, it.allow, it.reviewAllow, it.reviewDeny].flatMap((list) => list.map(({ tool }) => tool)),
      ...it.skipApproval.keys()
    ]))
  )
  const isName = (pattern: string): boolean => !/[*?]/.test(pattern)
  return Result.map(
    PatternClasses.classesOf(patterns.map((it) => [it])),
    (classes) =>
      classes.map(({ text }) => ({ name: text, isNamed: patterns.includes(text) && isName(text) }))
        .filter(({ name }) => name !== "" && !known.includes(name))
  )
}
