/** The table of all kinds of rules. A new kind is one file in `kinds/` and one entry here. */
import { AllowedOperations } from "./kinds/AllowedOperations.ts"
import { AlwaysDedupe } from "./kinds/AlwaysDedupe.ts"
import { ChildTools } from "./kinds/ChildTools.ts"
import { Conditional } from "./kinds/Conditional.ts"
import { ContinueLoop } from "./kinds/ContinueLoop.ts"
import { Cooldown } from "./kinds/Cooldown.ts"
import { ExclusiveGroup } from "./kinds/ExclusiveGroup.ts"
import { ExitLoop } from "./kinds/ExitLoop.ts"
import { MaxCalls } from "./kinds/MaxCalls.ts"
import { NeverDedupe } from "./kinds/NeverDedupe.ts"
import { ParentTools } from "./kinds/ParentTools.ts"
import { Periodic } from "./kinds/Periodic.ts"
import { RequiredBeforeExit } from "./kinds/RequiredBeforeExit.ts"
import { RequiresConsent } from "./kinds/RequiresConsent.ts"
import { RequiresFollowingTools } from "./kinds/RequiresFollowingTools.ts"
import { RequiresPrecedingTools } from "./kinds/RequiresPrecedingTools.ts"
import { StartConstraint } from "./kinds/StartConstraint.ts"
import type { RuleKind, Scope } from "./RuleKind.ts"

/** All kinds of rules, by tag, in the order of documents and schemas. */
export const kinds = {
  StartConstraint,
  RequiresPrecedingTools,
  RequiresFollowingTools,
  ChildTools,
  ParentTools,
  Conditional,
  AllowedOperations,
  MaxCalls,
  ExclusiveGroup,
  RequiredBeforeExit,
  ExitLoop,
  ContinueLoop,
  Cooldown,
  RequiresConsent,
  NeverDedupe,
  AlwaysDedupe,
  Periodic
}

/** Name of a kind of rule. */
export type Tag = keyof typeof kinds

/** One rule, as data. */
export type ToolRule = (typeof kinds)[Tag]["schema"]["Type"]

export type Of<T extends Tag> = Extract<ToolRule, { readonly _tag: T }>

/** Every kind is complete and stands under its own tag. */
const table: { readonly [T in Tag]: RuleKind<Of<T>> } = kinds

export const kindOf = (rule: ToolRule): RuleKind<ToolRule> =>
  // the kind under a rule's tag takes that rule, which the compiler cannot relate
  table[rule._tag] as RuleKind<ToolRule>

/** Gives where a rule counts. */
export const scopeOf = (rule: ToolRule): Scope | "principal" => {
  const { scope } = kindOf(rule)
  if (typeof scope === "object") return "process"
  const own: unknown = "scope" in rule ? rule.scope : undefined
  return own === "process" || own === "batch" || own === "session" ? own : scope
}
