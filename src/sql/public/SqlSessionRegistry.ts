export type * from "../SqlSessionRegistry.ts"
export { layer, prune } from "../SqlSessionRegistry.ts"
