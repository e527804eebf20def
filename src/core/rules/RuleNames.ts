/**
 * The tools that rules name. Pure.
 *
 * @since 0.1.0
 */
import { kindOf, type ToolRule } from "./RuleKinds.ts"

/**
 * Gives the names of the tools that rules use, in order.
 *
 * @category getters
 * @since 0.1.0
 */
export const namesIn = (rules: ReadonlyArray<ToolRule>): ReadonlyArray<string> =>
  Array.from(new Set(rules.flatMap((rule) => kindOf(rule).names(rule).map(({ tool }) => tool))))
    .filter((name) => name !== "*")
