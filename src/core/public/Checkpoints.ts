export type * from "../output/Checkpoints.ts"
export { CheckpointError, Checkpoints, layerMemory } from "../output/Checkpoints.ts"
