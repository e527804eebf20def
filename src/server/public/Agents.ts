export type * from "../operations/Agents.ts"
export { layer } from "../operations/Agents.ts"
