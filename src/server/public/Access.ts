export type * from "../Access.ts"
export { Access, AccessError, layer, layerFrom } from "../Access.ts"
