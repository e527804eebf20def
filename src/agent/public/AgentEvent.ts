export type * from "../AgentEvent.ts"
export { describe, sseName, toWire, Wire } from "../AgentEvent.ts"
