export type * from "../gates/TurnBudget.ts"
export { layer, layerConfig, layerNoop, TurnBudget } from "../gates/TurnBudget.ts"
