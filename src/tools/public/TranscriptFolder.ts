export type * from "../TranscriptFolder.ts"
export { layer } from "../TranscriptFolder.ts"
