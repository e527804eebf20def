export type * from "../TranscriptStore.ts"
export { layer, layerMemory, layerRows } from "../TranscriptStore.ts"
