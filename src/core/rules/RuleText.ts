/** Rules as sentences: what a set demands, for a prompt, and why a call was refused. Pure. */
import type { RuleSet } from "./RuleIndex.ts"
import type * as Kind from "./RuleKind.ts"
import { kindOf, type ToolRule } from "./RuleKinds.ts"

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
    new Set(self.rules.flatMap((rule) => kindOf(rule).sentencesIn?.(rule, self) ?? [sentence(rule)]))
  )

/** Gives the sentence of one rule, regardless of other rules. */
export const sentence = (rule: ToolRule): string => kindOf(rule).sentence(rule)

/** Explains a violation to the model: what was wrong, what is allowed instead, and whether a retry makes sense. */
export const explain = (violation: Violation): string => kindOf(violation.rule).explain(violation)
