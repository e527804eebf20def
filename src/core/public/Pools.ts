export type * from "../gates/Pools.ts"
export { layer, layerNoop, Pools } from "../gates/Pools.ts"
