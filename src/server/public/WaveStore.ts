export type * from "../WaveStore.ts"
export { layer, layerMemory, layerRows } from "../WaveStore.ts"
