export type * from "../approvals/PendingApprovals.ts"
export { layer } from "../approvals/PendingApprovals.ts"
