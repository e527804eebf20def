export type * from "../Faults.ts"
export {
  approvals,
  approver,
  artifactStore,
  checkpoints,
  handlers,
  journal,
  make,
  model,
  stateStore
} from "../Faults.ts"
