export type * from "../core/store/SessionRegistry.ts"
export { SessionLost, SessionRegistry, SessionRegistryError } from "../core/store/SessionRegistry.ts"
