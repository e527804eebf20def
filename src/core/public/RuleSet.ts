export type * from "../rules/RuleSet.ts"
export { describe, make, problems } from "../rules/RuleSet.ts"
