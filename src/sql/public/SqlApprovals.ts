export { layer } from "../SqlApprovals.ts"
