/**
 * The error of an invalid configuration: a tool, rule, pool or config file that cannot be built.
 *
 * It lists every problem with its place and the expected value. Invalid calls from a model are refused one by one
 * instead (see `ToolRefusal`).
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { OptionReader, shown } from "../../internal/OptionReader.ts"
import { issuesOf, missing, unknown } from "../../internal/schemaIssues.ts"

/** One problem: where it is, what is wrong, and what was expected. */
export const Problem = Schema.Struct({
  /** Such as `tools.search.maxConcurrent`. */
  path: Schema.String,
  problem: Schema.String,
  expected: Schema.String
})

/** One problem: where it is, what is wrong, and what was expected. */
export type Problem = typeof Problem.Type

/** A layer or file could not be built; lists every problem found. */
export class ConfigurationError extends Schema.TaggedError<ConfigurationError>(
  "effect-tool-executor/ConfigurationError"
)("ConfigurationError", {
  /** What was being built: `ToolHandlers`, `Rules`, `Pools`, or a file. */
  subject: Schema.String,
  problems: Schema.Array(Problem)
}) {
  override get message(): string {
    return `${this.subject}: ${this.problems.length} problem${this.problems.length === 1 ? "" : "s"}` +
      this.problems.map((it) => `\n  ${it.path}: ${it.problem}; expected ${it.expected}`).join("")
  }
}

export const unknownKey = "this key is unknown"

/**
 * Decodes a file written by a person. Reports every mistake with its path; unknown keys are mistakes. `subject` names
 * the file in the error.
 */
export const decodeStrict = <A, I>(schema: Schema.Codec<A, I>, subject: string) => {
  const decode = Schema.decodeUnknownEffect(schema, strictly)
  return (input: unknown): Effect.Effect<A, ConfigurationError> =>
    Effect.mapError(
      decode(input),
      (error) => new ConfigurationError({ subject, problems: problemsOf(error, input, "") })
    )
}

/** Returns every mistake in a file, each with its path below `at`. */
export const validateStrict = <A, I>(
  schema: Schema.Codec<A, I>,
  input: unknown,
  at: string
): ReadonlyArray<Problem> =>
  Result.match(Schema.decodeUnknownResult(schema, strictly)(input), {
    onFailure: (error) => problemsOf(error, input, at),
    onSuccess: () => []
  })

/** Reads options given in code; fails with every problem found. `subject` names what is being built. */
export const readOptions = <A>(
  subject: string,
  read: (reader: OptionReader) => A
): Effect.Effect<A, ConfigurationError> =>
  Effect.suspend(() => {
    const reader = new OptionReader()
    const value = read(reader)
    const { problems } = reader
    return problems.length === 0 ? Effect.succeed(value) : new ConfigurationError({ subject, problems })
  })

const strictly = { errors: "all", onExcessProperty: "error" } as const

const problemsOf = (error: Schema.SchemaError, input: unknown, root: string): ReadonlyArray<Problem> =>
  issuesOf(error).map(({ message, path }) => {
    const at = pathOf(path, root)
    if (message === missing) return { path: at, problem: "it is missing", expected: "a value" }
    if (message.startsWith(unknown)) {
      return { path: at, problem: unknownKey, expected: `one of ${message.slice(unknown.length)}` }
    }
    const expected = message.replace(/^Expected /, "")
    return {
      path: at,
      problem: `it is ${valueAt(input, path)}`,
      expected: expected.length > 400 ? `${expected.slice(0, 400)}…` : expected
    }
  })

type Path = ReadonlyArray<PropertyKey>

const pathOf = (path: Path, root: string): string =>
  path.reduce<string>(
    (text, key) => typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`,
    root
  ) || "(root)"

/** The value at a path, as short JSON. */
const valueAt = (input: unknown, path: Path): string => {
  let value = input
  for (const key of path) {
    value = typeof value === "object" && value !== null && Object.hasOwn(value, key)
      ? (value as Record<PropertyKey, unknown>)[key]
      : undefined
  }
  return shown(value)
}
