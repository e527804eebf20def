export type * from "../engine/ToolExecutor.ts"
export { fork, layer, layerFork, readOnly, ToolExecutor } from "../engine/ToolExecutor.ts"
