/** Rules as sentences: what a set demands, for a prompt, and why a call was refused. Pure. */
import type { RuleSet } from "./RuleIndex.ts"
import type * as Kind from "./RuleKind.ts"
import { kindOf, scopeOf, type ToolRule } from "./RuleKinds.ts"

/** A rule that forbids a call now, and the tools that matter to it. */
export type Violation = Kind.Violation<ToolRule>

/**
 * Gives what a rule set demands as sentences, for the prompt of a model. What only the host does (`Periodic`) is left
 * out.
 *
 * Rules that hold together are one sentence, and what a stricter rule overrides is left out, so that no two sentences
 * contradict each other.
 */
export const describe = (self: RuleSet): ReadonlyArray<string> =>
  Array.from(
    new Set(self.rules.flatMap((rule) => {
      const kind = kindOf(rule)
      const sentences = kind.sentencesIn?.(rule, self) ?? [kind.sentence(rule)]
      return sentences.map((it) => within(rule, it))
    }))
  )

/** Gives the sentence of one rule, regardless of other rules. */
export const sentence = (rule: ToolRule): string => within(rule, kindOf(rule).sentence(rule))

/** Explains a violation to the model: what was wrong, what is allowed instead, and whether a retry makes sense. */
export const explain = (violation: Violation): string =>
  within(violation.rule, kindOf(violation.rule).explain(violation))

/** A sentence with the scope of its rule, if that is not the default of its kind. */
const within = (rule: ToolRule, sentence: string): string => {
  const scope = scopeOf(rule)
  return scope === kindOf(rule).scope || scope === "principal" || typeof kindOf(rule).scope === "object"
    ? sentence
    : `In this ${words[scope]}, ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`
}

/** What models and people call the scopes. */
export const words = { process: "turn", batch: "request", session: "conversation" } as const
