export type * from "../SqlRateLimiterStore.ts"
export { layer, prune } from "../SqlRateLimiterStore.ts"
