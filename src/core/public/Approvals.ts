export type * from "../gates/Approvals.ts"
export { Answer, ApprovalError, Approvals, hash, layer, layerAsk, Resolution, resolve } from "../gates/Approvals.ts"
