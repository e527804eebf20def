export type * from "../Waves.ts"
export { layer } from "../Waves.ts"
