export type * from "../assembly/LocalExecutor.ts"
export { layer, layerGates } from "../assembly/LocalExecutor.ts"
