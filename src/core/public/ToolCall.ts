export type * from "../vocabulary/ToolCall.ts"
export { for, fromText, make, ToolCall } from "../vocabulary/ToolCall.ts"
