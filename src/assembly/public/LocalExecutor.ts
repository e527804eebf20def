export type * from "../LocalExecutor.ts"
export { layer, layerGates } from "../LocalExecutor.ts"
