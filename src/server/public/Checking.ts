export type * from "../Checking.ts"
export { layer } from "../Checking.ts"
