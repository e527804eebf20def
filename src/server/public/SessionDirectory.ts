export { layer as layerLocal } from "../LocalDirectory.ts"
export type * from "../SessionDirectory.ts"
export { SessionDirectory } from "../SessionDirectory.ts"
