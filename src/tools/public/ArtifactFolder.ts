export type * from "../folders/ArtifactFolder.ts"
export { layer } from "../folders/ArtifactFolder.ts"
