export type * from "../McpServers.ts"
export { McpServerError, McpServers } from "../McpServers.ts"
