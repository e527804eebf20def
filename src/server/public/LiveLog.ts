export type * from "../LiveLog.ts"
export { layer } from "../LiveLog.ts"
