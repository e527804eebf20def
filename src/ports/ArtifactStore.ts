export type * from "../core/output/ArtifactStore.ts"
export { ArtifactError, ArtifactStore, boundsOf, fit, isOver, partOf, surplus } from "../core/output/ArtifactStore.ts"
