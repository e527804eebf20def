export type * from "../api/RequestBody.ts"
export { layer } from "../api/RequestBody.ts"
