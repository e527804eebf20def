export type * from "../vocabulary/ToolRefusal.ts"
export { describe, ToolRefusal } from "../vocabulary/ToolRefusal.ts"
