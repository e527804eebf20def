export type * from "../guard/Authentication.ts"
export { layer } from "../guard/Authentication.ts"
