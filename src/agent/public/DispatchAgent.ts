export type * from "../DispatchAgent.ts"
export { make } from "../DispatchAgent.ts"
