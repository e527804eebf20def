export type * from "../SubAgent.ts"
export { make } from "../SubAgent.ts"
