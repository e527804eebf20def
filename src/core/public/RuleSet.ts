export type * from "../rules/RuleSet.ts"
export { allowedNext, describe, exitPending, explain, graph, history, make, problems } from "../rules/RuleSet.ts"
