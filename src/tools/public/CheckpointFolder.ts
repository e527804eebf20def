export type * from "../CheckpointFolder.ts"
export { layer } from "../CheckpointFolder.ts"
