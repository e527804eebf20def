/** The forms that the flags of all commands have. */
import * as Flag from "effect/cli/Flag"

/** A flag without a value: it never takes the next word of the command line for its value. */
export const toggle = (name: string, description: string) =>
  Flag.Boolean(name).pipe(
    Flag.withOptionalValue("true"),
    Flag.withDescription(description),
    Flag.withoutNegation,
    Flag.withDefault(false)
  )

/** An optional text. */
export const text = (name: string, metavar: string, description: string) =>
  Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

/** An optional number of 1 or more. */
export const count = (name: string, description: string) =>
  Flag.Int(name).pipe(
    Flag.withMetavar("COUNT"),
    Flag.withDescription(description),
    Flag.filter((count) => count >= 1, () => "a whole number of 1 or more"),
    Flag.optional
  )

/** An optional port. */
export const port = (name: string, least: 0 | 1, description: string) =>
  Flag.Int(name).pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription(description),
    Flag.filter((port) => port >= least && port <= 65_535, () => `a port, ${least} to 65535`),
    Flag.optional
  )
