export type * from "../engine/ExecutorSettings.ts"
export { layer } from "../engine/ExecutorSettings.ts"
