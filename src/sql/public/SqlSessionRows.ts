export type * from "../SqlSessionRows.ts"
export { layer } from "../SqlSessionRows.ts"
