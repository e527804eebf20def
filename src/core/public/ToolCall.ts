export type * from "../vocabulary/ToolCall.ts"
export { for, make, ToolCall } from "../vocabulary/ToolCall.ts"
