export type * from "../engine/ExecutedModel.ts"
export { layer, Process, Session, toolkit } from "../engine/ExecutedModel.ts"
