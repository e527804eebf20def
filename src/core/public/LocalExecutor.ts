export type * from "../assembly/LocalExecutor.ts"
export { layer, layerGates, layerReadOnly } from "../assembly/LocalExecutor.ts"
