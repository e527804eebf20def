/**
 * The one error of a wrong configuration: a tool, a rule, a pool or a config file that cannot be built.
 *
 * It lists every problem at once, each with the place it was found in and with what would be right. It does not cover
 * what a model sends: that is refused call by call (see `ToolRefusal`).
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { OptionReader, shown } from "../../internal/OptionReader.ts"
import { issuesOf, missing, unknown } from "../../internal/schemaIssues.ts"

/** One thing that is wrong: where, what, and what would be right. */
export const Problem = Schema.Struct({
  /** Place of the value, such as `tools.search.maxConcurrent`. */
  path: Schema.String,
  /** What is wrong with it. */
  problem: Schema.String,
  /** What would be right. */
  expected: Schema.String
})

/** One thing that is wrong: where, what, and what would be right. */
export type Problem = typeof Problem.Type

/** Error of a layer or file that cannot be built, with every problem found. */
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

/** What is wrong with a key that has no meaning. */
export const unknownKey = "this key is unknown"

/**
 * Decodes what a person wrote: every mistake at once, each with its path, and a key that is not known is a mistake.
 * `subject` names the file in the error.
 */
export const decodeStrict = <A, I>(schema: Schema.Codec<A, I>, subject: string) => {
  const decode = Schema.decodeUnknownEffect(schema, strictly)
  return (input: unknown): Effect.Effect<A, ConfigurationError> =>
    Effect.mapError(
      decode(input),
      (error) => new ConfigurationError({ subject, problems: problemsOf(error, input, "") })
    )
}

/** Gives every mistake in what a person wrote, each with its path below `at`. */
export const validateStrict = <A, I>(
  schema: Schema.Codec<A, I>,
  input: unknown,
  at: string
): ReadonlyArray<Problem> =>
  Result.match(Schema.decodeUnknownResult(schema, strictly)(input), {
    onFailure: (error) => problemsOf(error, input, at),
    onSuccess: () => []
  })

/**
 * Reads the options that code gives; fails with everything that is wrong with them. `subject` names what is being built
 * in the error.
 */
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

// Utilities

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
