export type * from "../ExecutedFiles.ts"
export { byCommands, byThemselves } from "../ExecutedFiles.ts"
