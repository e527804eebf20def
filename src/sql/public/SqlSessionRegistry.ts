export type * from "../SqlSessionRegistry.ts"
export { layer } from "../SqlSessionRegistry.ts"
