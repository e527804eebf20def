export type * from "../RequestBody.ts"
export { layer } from "../RequestBody.ts"
