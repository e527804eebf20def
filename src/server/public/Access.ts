export type * from "../users/Access.ts"
export { AccessError, layer, layerFrom } from "../users/Access.ts"
