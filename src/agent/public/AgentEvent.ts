export type * from "../AgentEvent.ts"
export { describe, hasContent, toWire } from "../AgentEvent.ts"
