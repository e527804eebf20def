export type * from "../users/Tokens.ts"
export { hash, make } from "../users/Tokens.ts"
