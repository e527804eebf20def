export type * from "../Undoing.ts"
export { layer } from "../Undoing.ts"
