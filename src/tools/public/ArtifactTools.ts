export type * from "../folders/ArtifactTools.ts"
export { layer, toolkit } from "../folders/ArtifactTools.ts"
