export type * from "../server/WaveStore.ts"
export { Ended, HandedOver, KeptTurn, WaveStore, WaveStoreError } from "../server/WaveStore.ts"
