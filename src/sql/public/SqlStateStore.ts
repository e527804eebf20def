export type * from "../SqlStateStore.ts"
export { layer } from "../SqlStateStore.ts"
