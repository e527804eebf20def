export type * from "../rules/Rules.ts"
export { fromSet, layer, layerConfig, layerNoop, layerRef, Rules, RulesRef } from "../rules/Rules.ts"
