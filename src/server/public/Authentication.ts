export type * from "../Authentication.ts"
export { layer } from "../Authentication.ts"
