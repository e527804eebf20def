export type * from "../gates/Policy.ts"
export { parse, Policy } from "../gates/Policy.ts"
