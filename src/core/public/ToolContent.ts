export type * from "../vocabulary/ToolContent.ts"
export { isImage, note } from "../vocabulary/ToolContent.ts"
