export type * from "../Authorizing.ts"
export { layer } from "../Authorizing.ts"
