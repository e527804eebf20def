export type * from "../McpServers.ts"
export { McpServers } from "../McpServers.ts"
