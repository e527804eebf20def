/** The user's wish to stop, as a command that runs calls sees it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/**
 * Waits for the user's next wish to stop and gives the reason.
 *
 * Code that waits handles the signal; if nothing waits, it ends the program. By default it never completes.
 */
export const Interruption = Context.Reference<Effect.Effect<string>>("effect-tool-executor/cli/Interruption", {
  defaultValue: () => Effect.never
})

/** The reasons, by the signals that ask to stop: what models and users read. */
export const reasons = {
  SIGINT: "the user pressed Ctrl-C",
  SIGTERM: "the program received SIGTERM",
  SIGHUP: "the terminal was closed"
} as const
