export { layer as layerLocal } from "../sessions/LocalDirectory.ts"
export type * from "../sessions/SessionDirectory.ts"
export { SessionDirectory } from "../sessions/SessionDirectory.ts"
