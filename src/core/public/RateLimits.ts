export type * from "../gates/RateLimits.ts"
export { layer, layerNoop } from "../gates/RateLimits.ts"
