export type * from "../gates/Dedupe.ts"
export { Dedupe, layer, layerConfig, layerNoop, make } from "../gates/Dedupe.ts"
