export type * from "../SqlJournal.ts"
export { layer, make, prune, verify } from "../SqlJournal.ts"
