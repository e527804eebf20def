export type * from "../PendingApprovals.ts"
export { layer, PendingApprovals } from "../PendingApprovals.ts"
