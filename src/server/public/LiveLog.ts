export type * from "../live/LiveLog.ts"
export { layer } from "../live/LiveLog.ts"
