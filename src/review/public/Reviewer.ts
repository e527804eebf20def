export type * from "../Reviewer.ts"
export { layer, layerFunction, Reviewer } from "../Reviewer.ts"
