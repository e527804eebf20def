export type * from "../JournalFile.ts"
export { layer, verify } from "../JournalFile.ts"
