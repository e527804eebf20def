export type * from "../TranscriptFolder.ts"
export { layer, layerConfig } from "../TranscriptFolder.ts"
