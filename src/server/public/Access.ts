export type * from "../Access.ts"
export { AccessError, layer, layerFrom } from "../Access.ts"
