export type * from "../ArtifactTools.ts"
export { layer, toolkit } from "../ArtifactTools.ts"
