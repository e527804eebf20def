export type * from "../Api.ts"
export { Api } from "../Api.ts"
