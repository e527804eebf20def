export type * from "../SqlPermits.ts"
export { layer } from "../SqlPermits.ts"
