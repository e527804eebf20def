export type * from "../api/Api.ts"
export { Api } from "../api/Api.ts"
