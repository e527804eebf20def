export type * from "../JournalFile.ts"
export { layer } from "../JournalFile.ts"
