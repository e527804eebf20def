export type * from "../TestExecutor.ts"
export { asked, layer, people, ran, recorded, TestExecutor } from "../TestExecutor.ts"
