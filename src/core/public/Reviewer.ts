export type * from "../gates/Reviewer.ts"
export { layer, layerFunction, Reviewer } from "../gates/Reviewer.ts"
