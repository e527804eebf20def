export type * from "../TestExecutor.ts"
export { asked, expectOutcomes, layer, people, ran, recorded, TestExecutor } from "../TestExecutor.ts"
