export type * from "../gates/Guards.ts"
export { for, layer } from "../gates/Guards.ts"
