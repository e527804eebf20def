export type * from "../engine/ExecutedModel.ts"
export { layer } from "../engine/ExecutedModel.ts"
