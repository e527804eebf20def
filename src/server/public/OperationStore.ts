export type * from "../operations/OperationStore.ts"
export { layer, layerMemory, layerRows } from "../operations/OperationStore.ts"
