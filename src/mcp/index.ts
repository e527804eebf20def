/** MCP on both sides of the executor: tools of MCP servers behind it, and the executor as an MCP server in front. */

/** A gateway over HTTP: limits, sessions and the streams that clients listen on. */
export * as GatewayHttp from "./GatewayHttp.ts"

/** When a gateway gets its tools, and how it ends. */
export * as GatewayLifecycle from "./GatewayLifecycle.ts"

/** A gateway on standard input and output. */
export * as GatewayStdio from "./GatewayStdio.ts"

/** The executor as an MCP server. */
export * as McpGateway from "./public/McpGateway.ts"

/** MCP servers as data. */
export * as McpServers from "./public/McpServers.ts"

/** Tools of MCP servers in the registry of an executor. */
export * as McpTools from "./public/McpTools.ts"
