export type * from "../gates/Pools.ts"
export { layer, layerConfig, layerNoop, Pools } from "../gates/Pools.ts"
