export type * from "../facts/ToolEvent.ts"
export { isEnd, sseName, ToolEvent, toWire, Wire } from "../facts/ToolEvent.ts"
