export type * from "../server/waves/WaveStore.ts"
export { Ended, KeptTurn, SubmittedWave, WaveStore, WaveStoreError } from "../server/waves/WaveStore.ts"
