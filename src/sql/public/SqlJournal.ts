export type * from "../SqlJournal.ts"
export { layer, layerConfig, make, prune } from "../SqlJournal.ts"
