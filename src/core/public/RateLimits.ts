export type * from "../gates/RateLimits.ts"
export { layer, layerConfig, layerNoop } from "../gates/RateLimits.ts"
