export type * from "../McpTools.ts"
export { layer, make, start } from "../McpTools.ts"
