export type * from "../SqlCircuitBreakerStore.ts"
export { layer, prune } from "../SqlCircuitBreakerStore.ts"
