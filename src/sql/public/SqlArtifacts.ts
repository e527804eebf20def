export type * from "../SqlArtifacts.ts"
export { layer, layerConfig } from "../SqlArtifacts.ts"
