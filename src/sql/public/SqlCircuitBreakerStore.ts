export type * from "../SqlCircuitBreakerStore.ts"
export { layer, layerConfig, prune } from "../SqlCircuitBreakerStore.ts"
