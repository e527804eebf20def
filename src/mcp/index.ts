/**
 * MCP on both sides of the executor: tools of MCP servers behind it, and the
 * executor as an MCP server in front.
 *
 * @since 0.1.0
 */

/**
 * What stands between a gateway, its transport and its host.
 *
 * @since 0.1.0
 */
export * as McpDoor from "./McpDoor.ts"

/**
 * The executor as an MCP server.
 *
 * @since 0.1.0
 */
export * as McpGateway from "./public/McpGateway.ts"

/**
 * MCP servers as data.
 *
 * @since 0.1.0
 */
export * as McpServers from "./public/McpServers.ts"

/**
 * Tools of MCP servers in the registry of an executor.
 *
 * @since 0.1.0
 */
export * as McpTools from "./public/McpTools.ts"
