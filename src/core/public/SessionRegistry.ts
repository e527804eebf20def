export type * from "../store/SessionRegistry.ts"
export { layerMemory, SessionRegistry } from "../store/SessionRegistry.ts"
