export type * from "../core/store/Journal.ts"
export { isOfCall, Journal, JournalEntry, JournalError, matches, mostLookedAt, ownerOf } from "../core/store/Journal.ts"
