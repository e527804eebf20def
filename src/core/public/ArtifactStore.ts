export type * from "../output/ArtifactStore.ts"
export { ArtifactError, ArtifactStore, layerMemory } from "../output/ArtifactStore.ts"
