export type * from "../workspace/Workspace.ts"
export { make } from "../workspace/Workspace.ts"
