export type * from "../waves/Waves.ts"
export { layer } from "../waves/Waves.ts"
