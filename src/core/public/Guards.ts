export type * from "../gates/Guards.ts"
export { for, layer, layerNoop } from "../gates/Guards.ts"
