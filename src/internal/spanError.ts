/**
 * How a span ends that something went wrong in: with the name of what it was. Neither a message, which may hold a
 * secret, nor a stack, which would be that of the place where the span ended.
 */
import * as Exit from "effect/Exit"

/** The exit of a span, by `error.type`; without one nothing went wrong. */
export const spanExit = (error: string | undefined): Exit.Exit<void, unknown> =>
  error === undefined
    ? Exit.void
    : error === "Cancelled" || error === "Skipped"
    ? Exit.interrupt()
    : Exit.fail({ name: error, message: error })
