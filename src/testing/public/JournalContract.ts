export type * from "../JournalContract.ts"
export { make } from "../JournalContract.ts"
