export type * from "../McpGateway.ts"
export { layer, layerSessions, layerToolkit } from "../McpGateway.ts"
