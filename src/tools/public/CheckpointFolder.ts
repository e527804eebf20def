export type * from "../CheckpointFolder.ts"
export { layer, layerConfig } from "../CheckpointFolder.ts"
