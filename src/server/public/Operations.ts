export type * from "../operations/Operations.ts"
export { layer } from "../operations/Operations.ts"
