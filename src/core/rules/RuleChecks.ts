/** Checks values in rules against the parameters of tools. */
import type * as JsonSchema from "effect/JsonSchema"
import { field as partsOf, fits } from "../../internal/json-schema/index.ts"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import type { Placement } from "./RuleKind.ts"

/** Gives what is wrong with values for a parameter of a tool; nothing where its schema is not known. */
export const valueProblems = (
  schema: JsonSchema.JsonSchema | undefined,
  { field, tool }: { readonly tool: string; readonly field: string },
  values: ReadonlyArray<unknown>,
  pathOf: (index: number | undefined) => string
): ReadonlyArray<Problem> => {
  if (schema === undefined) return []
  const parts = partsOf(schema, field)
  if (parts === undefined) {
    return [{
      path: pathOf(undefined),
      problem: `"${tool}" has no parameter "${field}"`,
      expected: `one of its parameters`
    }]
  }
  return values.flatMap((value, index) =>
    parts.length === 0 || parts.some((part) => fits(schema, part, value)) ? [] : [{
      path: pathOf(index),
      problem: `${JSON.stringify(value)} is not a valid "${field}" of "${tool}"`,
      expected: "a value that its parameters allow"
    }]
  )
}

/** Gives the contradiction to an earlier rule of another kind about the same tool. */
export const contradiction = (
  { tool }: { readonly tool: string },
  kind: string,
  { before, path }: Placement
): ReadonlyArray<Problem> => {
  const other = before.find(({ rule }) => rule._tag === kind && "tool" in rule && rule.tool === tool)
  return other === undefined ? [] : [{
    path,
    problem: `it contradicts ${kind} of the same tool (${other.path})`,
    expected: "one of the two"
  }]
}
