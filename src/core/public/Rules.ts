export type * from "../gates/Rules.ts"
export { fromSet, layer, layerConfig, layerNoop, layerRef, Rules, RulesRef } from "../gates/Rules.ts"
