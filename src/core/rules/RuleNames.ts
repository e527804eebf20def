/**
 * The tools that rules name, and where. Pure.
 *
 * @since 0.1.0
 */
import type * as ToolRule from "./ToolRule.ts"

/**
 * Gives the names of the tools that rules use, in order.
 *
 * @category getters
 * @since 0.1.0
 */
export const namesIn = (rules: ReadonlyArray<ToolRule.ToolRule>): ReadonlyArray<string> =>
  Array.from(
    new Set(rules.flatMap((rule) => [
      ...subjectsOf(rule),
      ...mentions(rule).map(([, name]) => name)
    ]))
  ).filter((name) => name !== "*")

/**
 * Gives the tools that a rule names besides its subject, each with its place in the rule.
 *
 * @category getters
 * @since 0.1.0
 */
export const mentions = (rule: ToolRule.ToolRule): ReadonlyArray<readonly [place: string, name: string]> => {
  const listed = (key: string, names: ReadonlyArray<string>) => names.map((name, i) => [`${key}[${i}]`, name] as const)
  switch (rule._tag) {
    case "RequiresPrecedingTools":
    case "RequiresFollowingTools":
    case "ExclusiveGroup":
      return listed("tools", rule.tools)
    case "ChildTools":
      return [
        ...listed("children", rule.children),
        ...Object.keys(rule.prefilled ?? {}).map((name) => [`prefilled.${name}`, name] as const)
      ]
    case "ParentTools":
      return listed("children", rule.children)
    case "Conditional":
      return [
        ...rule.cases.map((it, i) => [`cases[${i}].tool`, it.tool] as const),
        ...rule.default === undefined ? [] : [["default", rule.default] as const]
      ]
    case "RequiredBeforeExit":
      return listed("when", rule.when ?? [])
    default:
      return []
  }
}

/**
 * Gives the tools that a rule is about.
 *
 * @category getters
 * @since 0.1.0
 */
export const subjectsOf = (rule: ToolRule.ToolRule): ReadonlyArray<string> =>
  rule._tag === "ExclusiveGroup" ? [] : [rule.tool]
