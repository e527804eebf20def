export type * from "../vocabulary/FileChange.ts"
export { diff } from "../vocabulary/FileChange.ts"
