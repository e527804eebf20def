export type * from "../gates/TurnBudget.ts"
export { layer, layerNoop } from "../gates/TurnBudget.ts"
