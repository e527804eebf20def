export type * from "../OperationStore.ts"
export { layer, layerMemory } from "../OperationStore.ts"
