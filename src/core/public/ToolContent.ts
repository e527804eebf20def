export type * from "../vocabulary/ToolContent.ts"
export { isFile, isImage, note, textOf } from "../vocabulary/ToolContent.ts"
