export type * from "../VirtualTime.ts"
export { now, real, run } from "../VirtualTime.ts"
