export type * from "../engine/ExecutedModel.ts"
export { layer, Process, toolkit } from "../engine/ExecutedModel.ts"
