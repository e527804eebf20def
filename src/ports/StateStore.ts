export type * from "../core/store/StateStore.ts"
export { Kept, StateStore, StateStoreError } from "../core/store/StateStore.ts"
