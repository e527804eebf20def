export type * from "../rules/ToolRule.ts"
export { for, ToolRule } from "../rules/ToolRule.ts"
