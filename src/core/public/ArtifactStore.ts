export type * from "../output/ArtifactStore.ts"
export { ArtifactError, ArtifactStore, layerMemory, layerMemoryConfig } from "../output/ArtifactStore.ts"
