export type * from "../Health.ts"
export { layer } from "../Health.ts"
