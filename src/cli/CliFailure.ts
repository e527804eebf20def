/** The error of a command that ends with another exit code than 0. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { escape } from "../internal/escape.ts"

/** Error of a command: its exit code and what to tell the user. */
export class CliFailure extends Schema.TaggedError<CliFailure>("effect-tool-executor/cli/CliFailure")("CliFailure", {
  /** 1: something did not succeed or hold. 2: bad usage, input or config. 3: something could not be compared. */
  code: Schema.Literals([1, 2, 3]),
  /** For standard error, safe to show; empty if everything has been said. */
  explanation: Schema.String
}) {
  override get message(): string {
    return this.explanation
  }
}

/** Error of bad usage, input or config. */
export const wrong = (explanation: string): CliFailure => new CliFailure({ code: 2, explanation })

/** Error of a command that did its work, all of it printed, with less than full success. */
export const incomplete: Effect.Effect<never, CliFailure> = Effect.suspend(() =>
  Effect.fail(new CliFailure({ code: 1, explanation: "" }))
)

/** Describes a wrong configuration, one line per problem. */
export const describe = ({ problems, subject }: Pick<ConfigurationError, "problems" | "subject">): string =>
  [
    `${escape(subject)}: ${problems.length} ${problems.length === 1 ? "problem" : "problems"}`,
    ...problems.map((it) => escape(`  ${it.path}: ${it.problem}; expected ${it.expected}`))
  ].join("\n")

/** What an error and its causes say, each once. */
export const reasonsOf = (error: unknown, isSilent: (error: Error) => boolean = () => false): ReadonlyArray<string> => {
  const reasons = new Set<string>()
  for (let it = error; it instanceof Error && reasons.size < 4; it = it.cause) {
    if (!isSilent(it)) reasons.add(it.message)
  }
  return Array.from(reasons)
}

/** Shows the words of somebody else, such as a server, indented so that they cannot imitate lines of the command. */
export const inLines = (text: string): string => text.split("\n").map(escape).join("\n  | ")
