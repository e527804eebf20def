export type * from "../vocabulary/ToolHandlers.ts"
export { fromRegistry, jsonSchemaOf, layer, makeRegistry, ToolHandlers } from "../vocabulary/ToolHandlers.ts"
