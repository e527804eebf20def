export type * from "../folders/JournalFile.ts"
export { layer, verify } from "../folders/JournalFile.ts"
