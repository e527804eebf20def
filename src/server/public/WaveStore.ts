export type * from "../waves/WaveStore.ts"
export { layer, layerMemory } from "../waves/WaveStore.ts"
