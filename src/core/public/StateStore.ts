export type * from "../store/StateStore.ts"
export { layerMemory } from "../store/StateStore.ts"
