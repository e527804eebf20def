export type * from "../Cluster.ts"
export { layer, layerSingle } from "../Cluster.ts"
