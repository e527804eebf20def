export type * from "../output/Checkpoints.ts"
export { CheckpointError, Checkpoints, layerMemory, layerMemoryConfig } from "../output/Checkpoints.ts"
