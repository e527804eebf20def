export type * from "../SqlStateStore.ts"
export { layer, layerConfig } from "../SqlStateStore.ts"
