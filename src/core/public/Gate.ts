export type * from "../gates/Gate.ts"
export { layer } from "../gates/Gate.ts"
