export type * from "../command/ExecutedFiles.ts"
export { byCommands, byThemselves } from "../command/ExecutedFiles.ts"
