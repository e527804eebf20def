export type * from "../SqlCircuitBreakerStore.ts"
export { layer } from "../SqlCircuitBreakerStore.ts"
