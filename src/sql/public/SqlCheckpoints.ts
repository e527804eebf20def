export type * from "../SqlCheckpoints.ts"
export { layer, layerConfig } from "../SqlCheckpoints.ts"
