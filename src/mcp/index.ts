/**
 * MCP on both sides of the executor: tools of MCP servers behind it, and the executor as an MCP server in front.
 *
 * @since 0.1.0
 */

/**
 * A gateway over HTTP: limits, sessions and the streams that clients listen on.
 *
 * @since 0.1.0
 */
export * as GatewayHttp from "./GatewayHttp.ts"

/**
 * When a gateway gets its tools, and how it ends.
 *
 * @since 0.1.0
 */
export * as GatewayLifecycle from "./GatewayLifecycle.ts"

/**
 * A gateway on standard input and output.
 *
 * @since 0.1.0
 */
export * as GatewayStdio from "./GatewayStdio.ts"

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
