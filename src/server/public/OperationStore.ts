export type * from "../OperationStore.ts"
export { layer, layerMemory, layerRows } from "../OperationStore.ts"
