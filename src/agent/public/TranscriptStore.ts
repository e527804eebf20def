export type * from "../TranscriptStore.ts"
export { layer, layerKeyed, layerMemory } from "../TranscriptStore.ts"
