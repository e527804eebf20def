export type * from "../core/output/Checkpoints.ts"
export {
  boundsOf,
  bytesOf,
  Checkpoint,
  CheckpointError,
  Checkpoints,
  describer,
  isId,
  isOver,
  surplus,
  timeOf
} from "../core/output/Checkpoints.ts"
