export type * from "../engine/ExecutedModel.ts"
export { layer, toolkit } from "../engine/ExecutedModel.ts"
