export type * from "../gates/Rules.ts"
export { fromSet, layer, layerNoop, layerRef, Rules, RulesRef } from "../gates/Rules.ts"
