export type * from "../SqlPushDevices.ts"
export { layer } from "../SqlPushDevices.ts"
