export type * from "../rules/RuleSet.ts"
export { allowedNext, describe, explain, graph, history, make, problems } from "../rules/RuleSet.ts"
