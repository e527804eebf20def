/** The problems that requests for waves are refused with. */
import * as Effect from "effect/Effect"
import type { WireFormatError } from "../../wire/WireFormat.ts"
import { Invalid, Unavailable, WaveConflict, WaveUnreadable } from "../api/ApiProblems.ts"
import type * as WaveStore from "./WaveStore.ts"

export const stopping = Effect.fail(new Unavailable({ detail: "The server is about to stop." }))

export const conflict = Effect.fail(
  new WaveConflict({ detail: "Another message was submitted under this name. Choose another name." })
)

export const invalid = ({ expected, path, problem }: WireFormatError) =>
  new Invalid({ errors: [{ path: pathIn(path), problem, expected }] })

const pathIn = (path: string): string => path === "" ? "message" : `message${path.startsWith("[") ? "" : "."}${path}`

export const tooManyCalls = (count: number, most: number) =>
  new Invalid({ errors: [{ path: "message", problem: `has ${count} calls`, expected: `at most ${most}` }] })

export const unreadable = (error: WaveStore.WaveUnreadable) =>
  Effect.andThen(
    Effect.logError(error.message),
    new WaveUnreadable({
      detail: `${error.message}. Its calls may have run and are not run again. ` +
        "To run them anyway, submit the message under another name."
    })
  )

/** The cause goes to the log. */
export const orUnavailable = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, Unavailable | Extract<E, WaveUnreadable>, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, Unavailable | Extract<E, WaveUnreadable>> =>
      error instanceof WaveUnreadable
        ? Effect.fail(error as Extract<E, WaveUnreadable>)
        : Effect.andThen(Effect.logError("A request for a wave failed", error), new Unavailable({}))
  )

export const logged = (effect: Effect.Effect<void, WaveStore.WaveStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => Effect.logWarning(error.message, error.cause))
