export type * from "../server/WaveStore.ts"
export { Ended, KeptTurn, SubmittedWave, WaveStore, WaveStoreError } from "../server/WaveStore.ts"
