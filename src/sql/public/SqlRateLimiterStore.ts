export type * from "../SqlRateLimiterStore.ts"
export { layer } from "../SqlRateLimiterStore.ts"
