export type * from "../facts/ToolEvent.ts"
export { sseName, ToolEvent, toWire, Wire } from "../facts/ToolEvent.ts"
