export type * from "../records/Undoing.ts"
export { layer } from "../records/Undoing.ts"
