export type * from "../fetch/FetchTools.ts"
export { make } from "../fetch/FetchTools.ts"
