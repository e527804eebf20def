export type * from "../FetchTools.ts"
export { layer, make, toolkit } from "../FetchTools.ts"
