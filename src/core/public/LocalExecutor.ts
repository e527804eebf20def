export type * from "../assembly/LocalExecutor.ts"
export { layer, layerConfig, layerGates, layerReadOnly } from "../assembly/LocalExecutor.ts"
