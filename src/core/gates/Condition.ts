/**
 * Conditions of a policy over the arguments of a call, such as `{ "amount": { gt: 100 }, "card.country": "RU" }`. Pure.
 *
 * A condition holds, does not hold, or cannot be decided: the value has another type than the condition compares with,
 * a comparison needs a value and there is none, or its path leads into a list or a text. Who uses a condition takes the
 * stricter side then.
 *
 * The value is looked up in the arguments as the model wrote them. Where they have none, it is what the tool's schema
 * puts there: its decoded parameters, then the `default` of its JSON Schema. `null` is no value.
 */
import * as Schema from "effect/Schema"
import { matches } from "../../internal/wildcard.ts"

const optional = Schema.optionalKey

const Scalar = Schema.Union([Schema.String, Schema.Finite, Schema.Boolean])

const Comparison = Schema.Struct({
  eq: optional(Scalar),
  ne: optional(Scalar),
  gt: optional(Schema.Finite),
  gte: optional(Schema.Finite),
  lt: optional(Schema.Finite),
  lte: optional(Schema.Finite),
  in: optional(Schema.Array(Scalar).check(Schema.isMinLength(1))),
  like: optional(Schema.String).annotate({ description: "A text; * is any run of characters, ? is one" }),
  exists: optional(Schema.Boolean)
})

/** Schema of a condition on one argument; a value alone stands for `eq`. All parts of a condition have to hold. */
export const Condition = Schema.Union([Scalar, Comparison])

/** A condition on one argument. */
export type Condition = typeof Condition.Type

/** Schema of the conditions on the arguments of a call, by the dotted path of each. */
export const When = Schema.Record(Schema.String, Condition)

/** Conditions on the arguments of a call, by the dotted path of each. All of them have to hold. */
export type When = typeof When.Type

type Scalar = typeof Scalar.Type

/** One comparison with the value at a path. */
export interface Test {
  readonly path: ReadonlyArray<string>
  readonly operator: Operator
  /** What the value is compared with; for `in` all of them. */
  readonly wanted: unknown
  /** As a person reads it, such as `amount > 100`. */
  readonly text: string
  /** Whether it holds for a value; `undefined` if that cannot be decided. */
  readonly holds: (value: unknown) => boolean | undefined
}

/** What the values of a call are looked up in. */
export interface Given {
  /** The encoded arguments. */
  readonly args?: unknown
  /** The decoded parameters. */
  readonly params?: unknown
}

/** Gives the comparisons of conditions; the failure of a path says what is wrong with it. */
export const testsOf = (when: When): {
  readonly tests: ReadonlyArray<Test>
  readonly problems: ReadonlyArray<{ readonly path: string; readonly problem: string; readonly expected: string }>
} => {
  const entries = Object.entries(when)
  const problems = entries.flatMap(([path, condition]) => {
    if (path === "" || path.split(".").includes("")) {
      return [{ path, problem: `${JSON.stringify(path)} names no argument`, expected: "names joined by dots" }]
    }
    return typeof condition === "object" && Object.keys(condition).length === 0
      ? [{
        path,
        problem: "it compares nothing",
        expected: "a value, or one of eq, ne, gt, gte, lt, lte, in, like, exists"
      }]
      : []
  })
  return {
    problems: entries.length === 0
      ? [{ path: "", problem: "it has no condition", expected: "a condition for an argument, or no when" }]
      : problems,
    tests: entries.flatMap(([path, condition]) => {
      const parts = typeof condition === "object" ? condition : { eq: condition }
      return Object.entries(parts).map(([operator, wanted]) => ({
        path: path.split("."),
        operator: operator as Operator,
        wanted,
        text: textOf(path, operator as Operator, wanted),
        holds: holdsBy(operator as Operator, wanted)
      }))
    })
  }
}

/** Whether all comparisons hold for a call; `undefined` if that cannot be decided. */
export const hold = (tests: ReadonlyArray<Test>, given: Given, schema: unknown): boolean | undefined => {
  // without the arguments nothing is known of them
  if (tests.length > 0 && (typeof given.args !== "object" || given.args === null)) return undefined
  let holds: boolean | undefined = true
  for (const test of tests) {
    const one = holdsFor(test, given, schema)
    if (one === false) return false
    if (one === undefined) holds = undefined
  }
  return holds
}

/** A text that the tool decodes to another one has to meet a condition as both. */
const holdsFor = (test: Test, given: Given, schema: unknown): boolean | undefined => {
  const value = valueOf(test.path, given, schema)
  const one = test.holds(value)
  if (typeof value !== "string") return one
  const decoded = at(given.params, test.path)
  return typeof decoded !== "string" || decoded === value || test.holds(decoded) === one ? one : undefined
}

/** Gives what a call has at a path; `schema` is the JSON Schema of its tool's parameters. */
export const valueOf = (path: ReadonlyArray<string>, { args, params }: Given, schema?: unknown): unknown =>
  at(args, path, unclear) ?? at(params, path) ?? defaultAt(schema, path)

/** What a path leads to that goes into a list without a place in it, or into a text: nobody knows what is meant. */
export const unclear: unique symbol = Symbol("unclear")

const at = (value: unknown, path: ReadonlyArray<string>, otherwise?: typeof unclear): unknown => {
  let found = value
  for (const key of path) {
    if (isNone(found)) return undefined
    if (typeof found !== "object" || found === null) return otherwise
    if (!Object.hasOwn(found, key)) return Array.isArray(found) && !/^\d+$/.test(key) ? otherwise : undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}

/** What a JSON Schema puts where a value is missing. */
const defaultAt = (schema: unknown, path: ReadonlyArray<string>): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return at(schema, ["default"])
  const inner = at(schema, ["properties", key])
  return (inner === undefined ? undefined : defaultAt(inner, rest)) ?? at(schema, ["default", ...path])
}

type Operator = keyof typeof Comparison.Type

/** A value is none, one of three types, or anything else. */
const isNone = (value: unknown): value is null | undefined => value === undefined || value === null

const equals = (value: unknown, wanted: Scalar): boolean | undefined =>
  isNone(value) ? false : typeof value === typeof wanted && !Number.isNaN(value) ? value === wanted : undefined

const not = (answer: boolean | undefined): boolean | undefined => answer === undefined ? undefined : !answer

const compares = (is: (value: number) => boolean) => (value: unknown): boolean | undefined =>
  typeof value === "number" && !Number.isNaN(value) ? is(value) : undefined

const holdsBy = (operator: Operator, wanted: unknown): Test["holds"] => {
  switch (operator) {
    case "eq":
      return (value) => equals(value, wanted as Scalar)
    case "ne":
      return (value) => isNone(value) ? undefined : not(equals(value, wanted as Scalar))
    case "in":
      return (value) => {
        const answers = (wanted as ReadonlyArray<Scalar>).map((it) => equals(value, it))
        return answers.includes(true) ? true : answers.includes(undefined) ? undefined : false
      }
    case "like":
      return (value) => typeof value === "string" ? matches(wanted as string, value) : isNone(value) ? false : undefined
    case "exists":
      return (value) => value === unclear ? undefined : isNone(value) !== wanted
    case "gt":
      return compares((value) => value > (wanted as number))
    case "gte":
      return compares((value) => value >= (wanted as number))
    case "lt":
      return compares((value) => value < (wanted as number))
    case "lte":
      return compares((value) => value <= (wanted as number))
  }
}

const signs = { eq: "=", ne: "≠", gt: ">", gte: "≥", lt: "<", lte: "≤", in: "in", like: "like" } as const

const textOf = (path: string, operator: Operator, wanted: unknown): string =>
  operator === "exists"
    ? wanted === true ? `${path} is given` : `${path} is not given`
    : `${path} ${signs[operator]} ${JSON.stringify(wanted)}`
