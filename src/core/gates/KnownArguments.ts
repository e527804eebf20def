/** Finds conditions on arguments that no tool has: a misspelled one never holds, so what it denies would run. Pure. */
import * as Result from "effect/Result"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import * as PermissionPattern from "./PermissionPattern.ts"
import * as Policy from "./Policy.ts"

/** What is known of a tool. */
export interface Known {
  readonly name: string
  /** The JSON Schema of its parameters. */
  readonly jsonSchema?: unknown
}

/** Gives the conditions of clauses whose tools all take other arguments only. */
export const problems = (
  tiers: ReadonlyArray<Policy.Tier>,
  tools: ReadonlyArray<Known>
): ReadonlyArray<Problem> =>
  tiers.flatMap(({ name, policy }) =>
    Policy.entriesOf(policy).flatMap(({ entry, index, list }) => {
      if (typeof entry === "string" || entry.when === undefined) return []
      const pattern = PermissionPattern.parse(entry.tool)
      if (Result.isFailure(pattern)) return []
      const named = tools.filter((it) => PermissionPattern.names(pattern.success, it.name))
      const at = `${name === "" ? "" : `${name}.`}${list}[${index}].when`
      return Object.keys(entry.when).flatMap((path) => {
        const others = named.map((it) => otherThan(it.jsonSchema, path.split(".")))
        if (others.length === 0 || others.includes(undefined)) return []
        const names = Array.from(new Set(others.flatMap((it) => it ?? [])))
        return [{
          path: `${at}.${path}`,
          problem: `${named.length === 1 ? `the tool ${named[0]!.name} takes` : "its tools take"} no such argument`,
          expected: `one of ${names.join(", ")}`
        }]
      })
    })
  )

/** The arguments that there are in the place of the one at a path; `undefined`: it may be there. */
const otherThan = (schema: unknown, [key, ...rest]: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
  const { additionalProperties, properties } = (schema ?? {}) as {
    readonly additionalProperties?: unknown
    readonly properties?: Readonly<Record<string, unknown>>
  }
  if (key === undefined || typeof properties !== "object") return undefined
  if (Object.hasOwn(properties, key)) return otherThan(properties[key], rest)
  // others may be let through, but only those that are named mean something to a tool
  const isOpen = typeof additionalProperties === "object" || Object.keys(properties).length === 0
  return isOpen ? undefined : Object.keys(properties)
}
