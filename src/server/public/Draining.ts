export type * from "../sessions/Draining.ts"
export { layer } from "../sessions/Draining.ts"
