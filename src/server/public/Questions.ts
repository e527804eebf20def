export type * from "../Questions.ts"
export { layer } from "../Questions.ts"
