export type * from "../waves/WaveStore.ts"
export { layer, layerMemory, layerRows } from "../waves/WaveStore.ts"
