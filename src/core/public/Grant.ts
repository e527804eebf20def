export type * from "../vocabulary/Grant.ts"
export { Grant } from "../vocabulary/Grant.ts"
