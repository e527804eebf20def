export type * from "../gates/TurnBudget.ts"
export { layer, layerNoop, TurnBudget } from "../gates/TurnBudget.ts"
