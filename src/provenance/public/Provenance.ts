export type * from "../Provenance.ts"
export { layer, Provenance } from "../Provenance.ts"
