/**
 * Checks values against JSON Schemas that may be hostile.
 *
 * An MCP server or another stranger chooses the schemas of its tools, and a model chooses the values. No validator on
 * npm limits the cost of a check under these conditions. Ajv compiles a schema to code (which needs `eval`), and the
 * compiled check runs for as long as it takes. The interpreters follow references through a schema and a value without
 * counting. Both match `pattern` with JavaScript's own engine, which can backtrack exponentially. This interpreter
 * counts its steps (`check.ts`, `stepBudget.ts`), remembers what it has already checked, and removes patterns that
 * cannot be matched in linear time from foreign schemas (`foreign.ts`, `linearPattern.ts`).
 *
 * It supports drafts 6, 7, 2019-09 and 2020-12, generates no code and fetches nothing. It knows nothing about tools:
 * apart from Effect it uses only `clip` and `canonicalJson`. Nothing outside this folder imports another file than this
 * one.
 */
export { field, narrow, without } from "./fields.ts"
export { withoutSlowPatterns } from "./foreign.ts"
export { compile, fits, type Issue, type Validator } from "./validator.ts"
