export type * from "../WorkspaceTools.ts"
export { make } from "../WorkspaceTools.ts"
