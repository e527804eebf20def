export type * from "../folders/TranscriptFolder.ts"
export { layer } from "../folders/TranscriptFolder.ts"
