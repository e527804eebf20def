export type * from "../agent/Transcripts.ts"
export { TranscriptError, Transcripts } from "../agent/Transcripts.ts"
