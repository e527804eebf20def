export type * from "../gates/Approvals.ts"
export { Answer, ApprovalError, Approvals, hash, layer, layerApprover, resolve } from "../gates/Approvals.ts"
