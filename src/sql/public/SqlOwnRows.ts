export type * from "../SqlOwnRows.ts"
export { layer } from "../SqlOwnRows.ts"
