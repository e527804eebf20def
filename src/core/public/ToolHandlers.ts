export type * from "../vocabulary/ToolHandlers.ts"
export { layer, makeRegistry, ToolHandlers } from "../vocabulary/ToolHandlers.ts"
