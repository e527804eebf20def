export type * from "../gates/CircuitBreakers.ts"
export { layer, layerNoop } from "../gates/CircuitBreakers.ts"
