export type * from "../SqlCheckpoints.ts"
export { layer } from "../SqlCheckpoints.ts"
