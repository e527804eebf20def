export type * from "../vocabulary/ConfigurationError.ts"
export { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
