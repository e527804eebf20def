export type * from "../workspace/WorkspaceTools.ts"
export { make } from "../workspace/WorkspaceTools.ts"
