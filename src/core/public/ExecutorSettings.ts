export type * from "../engine/executor/ExecutorSettings.ts"
export { layer } from "../engine/executor/ExecutorSettings.ts"
