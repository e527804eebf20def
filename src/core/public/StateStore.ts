export type * from "../store/StateStore.ts"
export { layerMemory, layerMemoryConfig } from "../store/StateStore.ts"
