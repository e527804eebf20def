export type * from "../JournalFile.ts"
export { layer, layerConfig } from "../JournalFile.ts"
