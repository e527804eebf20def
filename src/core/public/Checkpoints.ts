export type * from "../output/Checkpoints.ts"
export { Checkpoints, layerMemory } from "../output/Checkpoints.ts"
