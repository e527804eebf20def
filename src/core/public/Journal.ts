export type * from "../store/Journal.ts"
export { Journal, JournalError, layerMemory, layerNoop } from "../store/Journal.ts"
