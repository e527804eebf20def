export type * from "../SqlLive.ts"
export { layer } from "../SqlLive.ts"
