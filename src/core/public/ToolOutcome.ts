export type * from "../vocabulary/ToolOutcome.ts"
export { orFail, text, toMessage, ToolExecutionError, ToolOutcome } from "../vocabulary/ToolOutcome.ts"
