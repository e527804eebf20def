export type * from "../gates/Provenance.ts"
export { layer, Provenance } from "../gates/Provenance.ts"
