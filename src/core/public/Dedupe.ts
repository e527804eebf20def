export type * from "../gates/Dedupe.ts"
export { Dedupe, layer, layerNoop, make } from "../gates/Dedupe.ts"
