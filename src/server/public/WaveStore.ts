export type * from "../WaveStore.ts"
export { layer, layerMemory } from "../WaveStore.ts"
