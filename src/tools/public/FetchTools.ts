export type * from "../FetchTools.ts"
export { make } from "../FetchTools.ts"
