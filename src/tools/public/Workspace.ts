export type * from "../Workspace.ts"
export { make } from "../Workspace.ts"
