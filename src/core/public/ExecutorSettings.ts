export type * from "../engine/ExecutorSettings.ts"
export { ExecutorSettings, layer, layerConfig } from "../engine/ExecutorSettings.ts"
