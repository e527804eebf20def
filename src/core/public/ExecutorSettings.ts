export type * from "../engine/state/ExecutorSettings.ts"
export { layer } from "../engine/state/ExecutorSettings.ts"
