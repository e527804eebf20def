export type * from "../Limits.ts"
export { layer } from "../Limits.ts"
