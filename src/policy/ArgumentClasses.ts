/**
 * Arguments that the conditions of clauses can tell apart, with an example of each class. Pure.
 *
 * The values of each argument that a condition looks at are divided by the constants it is compared with: below,
 * between, equal, above, none, of another type.
 */
import * as Result from "effect/Result"
import * as Clause from "../core/gates/Clause.ts"
import * as Condition from "../core/gates/Condition.ts"
import * as PatternClasses from "./PatternClasses.ts"

/** Limit of the combinations that are tried. */
export const mostCombinations = 5_000

/** Limit of the roles that are combined. */
const mostRoles = 8

/** Arguments and roles for which the same clauses hold. */
export interface Class extends Clause.Given {
  readonly args: unknown
  /** For each clause whether it holds; `undefined` where that cannot be decided. */
  readonly holds: ReadonlyArray<boolean | undefined>
}

/**
 * Gives an example of each class, the plainest first. `schema` is the JSON Schema of the tool's parameters. Fails with
 * a reason if there are too many.
 */
export const classesOf = (
  clauses: ReadonlyArray<Clause.Parsed>,
  schema: unknown
): Result.Result<ReadonlyArray<Class>, string> => {
  const tests = clauses.flatMap((it) => it.tests)
  const paths = Array.from(new Set(tests.map((it) => it.path.join("."))))
  const values = paths.map((path) => valuesOf(tests.filter((it) => it.path.join(".") === path), path.includes(".")))
  const failed = values.find(Result.isFailure)
  if (failed !== undefined) return Result.fail(failed.failure)
  const roles = rolesOf(clauses)
  const named = new Set(clauses.flatMap((it) => it.roles ?? [])).size
  if (named > mostRoles) return Result.fail(`the clauses name ${named} roles, more than ${mostRoles}`)
  const count = values.reduce((product, it) => product * Result.getOrThrow(it).length, roles.length)
  if (count > mostCombinations) {
    return Result.fail(`conditions on ${paths.length} arguments have ${count} combinations`)
  }
  const found = new Map<string, Class>()
  for (const args of combined(paths, values.map(Result.getOrThrow))) {
    for (const of of roles) {
      const given: Clause.Given = of === undefined ? { args } : { args, roles: of }
      const holds = clauses.map((it) => Clause.holds(it, given, schema))
      const key = holds.map((it) => it === undefined ? "?" : it ? "+" : "-").join("")
      if (!found.has(key)) found.set(key, { ...given, args, holds })
    }
  }
  return Result.succeed(Array.from(found.values()))
}

/** Sets of the roles that clauses name, none first; `undefined`: the roles are unknown. */
export const rolesOf = (clauses: ReadonlyArray<Clause.Parsed>): ReadonlyArray<ReadonlyArray<string> | undefined> => {
  const roles = Array.from(new Set(clauses.flatMap((it) => it.roles ?? [])))
  if (roles.length === 0) return [[]]
  const sets = roles.slice(0, mostRoles).reduce<ReadonlyArray<ReadonlyArray<string>>>(
    (sets, role) => [...sets, ...sets.map((it) => [...it, role])],
    [[]]
  )
  return [...sets, undefined]
}

/** Values of one argument that its tests can tell apart. */
const valuesOf = (
  tests: ReadonlyArray<Condition.Test>,
  isNested: boolean
): Result.Result<ReadonlyArray<unknown>, string> => {
  const constants = tests.flatMap(({ wanted }) => Array.isArray(wanted) ? wanted : [wanted])
  const likes = tests.flatMap(({ operator, wanted }) => operator === "like" ? [[wanted as string]] : [])
  const texts = PatternClasses.classesOf(likes)
  if (Result.isFailure(texts)) return Result.fail(texts.failure)
  const numbers = Array.from(new Set(constants.filter((it): it is number => typeof it === "number"))).sort((a, b) =>
    a - b
  )
  const between = numbers.flatMap((it, index) => {
    const next = numbers[index + 1]
    return next === undefined ? [] : [(it + next) / 2]
  })
  const candidates: ReadonlyArray<unknown> = [
    undefined,
    ...constants,
    ...texts.success.map((it) => it.text),
    ...numbers.length === 0 ? [0] : [numbers[0]! - 1, ...between, numbers.at(-1)! + 1],
    "example",
    otherThan(constants),
    true,
    false,
    {},
    ...isNested ? [Condition.unclear] : []
  ]
  const found = new Map<string, unknown>()
  for (const value of candidates) {
    const key = tests.map((it) => String(it.holds(value))).join()
    if (!found.has(key)) found.set(key, value)
  }
  return Result.succeed(Array.from(found.values()))
}

const otherThan = (constants: ReadonlyArray<unknown>): string => {
  let text = "other"
  while (constants.includes(text)) text += "s"
  return text
}

/** Every combination of values, as arguments. */
const combined = (
  paths: ReadonlyArray<string>,
  values: ReadonlyArray<ReadonlyArray<unknown>>
): ReadonlyArray<Record<string, unknown>> =>
  paths.reduce<ReadonlyArray<Record<string, unknown>>>(
    (all, path, index) =>
      all.flatMap((args) =>
        values[index]!.flatMap((value) => {
          const next = value === undefined ? args : placed(args, path.split("."), value)
          return next === undefined ? [] : [next]
        })
      ),
    [{}]
  )

/** What a path leads into that is unclear. */
const inTheWay = "example"

/** Arguments with a value at a path; `undefined` if another value is in the way. */
const placed = (
  args: Record<string, unknown>,
  [key, ...rest]: ReadonlyArray<string>,
  value: unknown
): Record<string, unknown> | undefined => {
  const before = Object.hasOwn(args, key!) ? args[key!] : undefined
  if (value === Condition.unclear && rest.length === 1) {
    return before === undefined || before === inTheWay ? { ...args, [key!]: inTheWay } : undefined
  }
  if (rest.length === 0) return before === undefined ? { ...args, [key!]: value } : undefined
  if (before !== undefined && (typeof before !== "object" || before === null)) return undefined
  const inner = placed((before ?? {}) as Record<string, unknown>, rest, value)
  return inner === undefined ? undefined : { ...args, [key!]: inner }
}
