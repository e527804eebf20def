export type * from "../engine/ExecutorSettings.ts"
export { ExecutorSettings, layer } from "../engine/ExecutorSettings.ts"
