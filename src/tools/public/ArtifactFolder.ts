export type * from "../ArtifactFolder.ts"
export { layer } from "../ArtifactFolder.ts"
