export type * from "../guard/Limits.ts"
export { layer } from "../guard/Limits.ts"
