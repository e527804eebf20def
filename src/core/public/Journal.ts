export type * from "../store/Journal.ts"
export { Journal, JournalError, layerMemory, layerMemoryConfig, layerNoop } from "../store/Journal.ts"
