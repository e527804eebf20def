export type * from "../Draining.ts"
export { layer } from "../Draining.ts"
