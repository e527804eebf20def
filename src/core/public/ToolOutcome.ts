export type * from "../vocabulary/ToolOutcome.ts"
export { orFail, text, ToolExecutionError, ToolOutcome } from "../vocabulary/ToolOutcome.ts"
