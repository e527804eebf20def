export type * from "../WorkspaceTools.ts"
export { layer, make, toolkit } from "../WorkspaceTools.ts"
