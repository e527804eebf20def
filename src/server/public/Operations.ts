export type * from "../Operations.ts"
export { layer, Operations } from "../Operations.ts"
