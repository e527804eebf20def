export type * from "../folders/CheckpointFolder.ts"
export { layer } from "../folders/CheckpointFolder.ts"
