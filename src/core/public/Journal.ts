export type * from "../store/Journal.ts"
export { Journal, layerMemory } from "../store/Journal.ts"
export type { Checkpoint, Finding, Verified } from "../store/JournalChain.ts"
