/** The tools that rules name. Pure. */
import { kindOf, type ToolRule } from "./RuleKinds.ts"

/** Gives the names of the tools that rules use, in order. */
export const namesIn = (rules: ReadonlyArray<ToolRule>): ReadonlyArray<string> =>
  Array.from(new Set(rules.flatMap((rule) => kindOf(rule).names(rule).map(({ tool }) => tool))))
    .filter((name) => name !== "*")
