export type * from "../gates/TurnState.ts"
export { TurnState } from "../gates/TurnState.ts"
