export type * from "../SqlJournal.ts"
export { layer, make, prune } from "../SqlJournal.ts"
