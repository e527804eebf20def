export type * from "../TranscriptStore.ts"
export { layer, layerMemory } from "../TranscriptStore.ts"
