export type * from "../ArtifactFolder.ts"
export { layer, layerConfig } from "../ArtifactFolder.ts"
