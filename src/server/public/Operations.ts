export type * from "../Operations.ts"
export { layer } from "../Operations.ts"
