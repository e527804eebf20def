export type * from "../operations/OperationStore.ts"
export { layer, layerMemory } from "../operations/OperationStore.ts"
