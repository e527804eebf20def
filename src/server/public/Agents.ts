export type * from "../Agents.ts"
export { layer } from "../Agents.ts"
