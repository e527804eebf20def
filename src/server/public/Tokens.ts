export type * from "../Tokens.ts"
export { hash, make } from "../Tokens.ts"
