export type * from "../SqlArtifacts.ts"
export { layer } from "../SqlArtifacts.ts"
