/**
 * Checks a value against a JSON Schema without compiling the schema to code. The cost of a check is limited by the
 * sizes of the schema and the value; for the schema of somebody else there is one limit for all values. Nothing is
 * fetched.
 *
 * A schema is read, not turned into a program: that takes as long as it is large, makes no code, and works where code
 * must not be made. What a check may take grows with the sizes of the schema and the value, and no faster; of a
 * stranger's schema it has one bound, whatever the value. Nothing is fetched.
 */
import { memoize } from "effect/Function"
import * as JsonPointer from "effect/JsonPointer"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import { clip } from "../clip.ts"
import { type Failure, maxFailures, nodesOf, Run, TooMuch } from "./check.ts"
import { type Dialect, dialectOf } from "./dialects.ts"
import * as SchemaDocument from "./document.ts"
import { keywords } from "./keywords.ts"
import { nativePattern } from "./linearPattern.ts"
import { isKeys } from "./positions.ts"

/** One thing that is wrong with a value, and its path inside it. */
export interface Issue {
  readonly path: string
  readonly message: string
}

/** Gives the issues of a value, none if it fits the schema. */
export type Validator = (value: unknown) => ReadonlyArray<Issue>

/** Compiles a JSON Schema; the failure says what is wrong with it. */
export type Compile = (schema: JsonSchema.JsonSchema, whose?: "own" | "foreign") => Result.Result<Validator, string>

/**
 * Compiles a schema of draft 6, 7, 2019-09 or 2020-12, which it is without a `$schema`. Schemas know nothing of each
 * other, and none is fetched.
 */
export const compile: Compile = (schema, whose = "own") =>
  Result.map(read(schema), (checker) => {
    const check = checker(schema, whose === "foreign")
    return (value) => check(value).map(issueOf)
  })

/** Tells whether a value fits a schema inside another; true if that cannot be determined. */
export const fits = (root: JsonSchema.JsonSchema, part: JsonSchema.JsonSchema, value: unknown): boolean => {
  const checker = readOnce(root)
  return Result.isFailure(checker) || checker.success(part, false)(value).length === 0
}

/** Gives the known failures of a value for a schema of a document. */
type Checker = (schema: unknown, isForeign: boolean) => (value: unknown) => ReadonlyArray<Failure>

const read = (schema: JsonSchema.JsonSchema): Result.Result<Checker, string> =>
  Result.try({
    try: () => {
      const dialect = dialectOf(schema)
      return checkerOf(SchemaDocument.read(schema, dialect.refAlone, refuseWrong(dialect)), dialect)
    },
    catch: (error) => clip(messageOf(error), 500)
  })

const readOnce = memoize(read)

const checkerOf = (document: SchemaDocument.Document, dialect: Dialect): Checker => {
  const nodeOf = nodesOf(document, dialect, keywords)
  return (schema, isForeign) => (value) => {
    const run = new Run(document, value, isForeign)
    const failures: Array<Failure> = []
    const checked = Result.try(() => {
      const { apply } = nodeOf(schema)
      if (apply(value, run, undefined, undefined, undefined)) return
      run.again(failures)
      apply(value, run, undefined, failures, undefined)
    })
    if (Result.isSuccess(checked) || failures.length > 0) return failures.slice(0, maxFailures)
    return [{ at: undefined, message: unchecked(checked.failure) }]
  }
}

/** Refuses a value that is not a schema of a draft; looks at one schema at a time. */
const refuseWrong = memoize(({ shape }: Dialect) => {
  const check = checkerOf(SchemaDocument.read(shape, false, () => undefined), dialectOf(shape))(shape, false)
  return (schema: unknown, pointer: string): void => {
    const [failure] = check(schema)
    if (failure !== undefined) {
      const inside = keysOf(failure).map((key) => `/${JsonPointer.escapeToken(key)}`).join("")
      throw new Error(`#${pointer}${inside} ${failure.message}`)
    }
    if (!isKeys(schema)) return
    const patterns = Object.keys(Object(schema.patternProperties))
    if (typeof schema.pattern === "string") patterns.push(schema.pattern)
    for (const source of patterns) nativePattern(source)
  }
})

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

const unchecked = (error: unknown): string =>
  error instanceof RangeError
    ? "is nested too deeply to be checked"
    : error instanceof TooMuch
    ? `cannot be checked: that takes more than ${error.steps} steps; fewer and shorter values take less`
    : `cannot be checked: ${clip(messageOf(error), 200)}`

const keysOf = ({ at }: Failure): ReadonlyArray<string> => {
  const keys: Array<string> = []
  for (let it = at; it !== undefined; it = it.above) keys.push(String(it.key))
  return keys.reverse()
}

const issueOf = (failure: Failure): Issue => ({
  path: keysOf(failure).join(".").slice(0, 200),
  message: clip(failure.message, 500)
})
