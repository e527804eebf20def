export type * from "../SqlLogins.ts"
export { layer } from "../SqlLogins.ts"
