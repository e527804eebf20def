export type * from "../PendingApprovals.ts"
export { layer } from "../PendingApprovals.ts"
