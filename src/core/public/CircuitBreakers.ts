export type * from "../gates/CircuitBreakers.ts"
export { layer, layerConfig, layerNoop } from "../gates/CircuitBreakers.ts"
