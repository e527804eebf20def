export type * from "../McpTools.ts"
export { layer, start } from "../McpTools.ts"
