export type * from "../Scenario.ts"
export { decode, Scenario } from "../Scenario.ts"
