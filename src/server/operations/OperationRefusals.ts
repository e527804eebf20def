/** The problems that messages to agents are refused with. */
import * as Effect from "effect/Effect"
import { TranscriptError } from "../../agent/Transcripts.ts"
import { Invalid, OperationConflict, SessionBusy, TooMany, Unavailable } from "../api/ApiProblems.ts"
import { OperationStoreError } from "./OperationStore.ts"
import type { ServedOperation } from "./ServedOperation.ts"

export const stopping = Effect.fail(new Unavailable({ detail: "The server is about to stop." }))

export const interrupted = "a new message was sent instead"

export const conflict = Effect.fail(
  new OperationConflict({ detail: "Another message was sent under this id. Choose another id." })
)

export const isRunning =
  "Answer its pending approval requests, send the message to it, cancel it, or wait until it has ended."

export const otherAgent = (agent: string) =>
  `It belongs to the agent ${JSON.stringify(agent)}. Wait until it has ended.`

export const busy = ({ id }: ServedOperation, detail: string) => Effect.fail(new SessionBusy({ operation: id, detail }))

export const unknownAgent = (name: string, names: ReadonlyArray<string>) =>
  new Invalid({
    errors: [{
      path: "agent",
      problem: `there is no agent ${JSON.stringify(name)}`,
      expected: names.length === 0 ? "a server with agents" : `one of ${names.join(", ")}`
    }]
  })

export const tooLong = (most: number) =>
  Effect.fail(
    new Invalid({
      errors: [{ path: "prompt", problem: "it is too long", expected: `a text of at most ${most} characters` }]
    })
  )

export const tooMany = (most: number, what: string) =>
  new TooMany({ detail: `At most ${most} ${what} can be open. Try again once one of them has ended.` })

export const tooManyMessages = (most: number, what: string) =>
  Effect.fail(new TooMany({ detail: `An operation takes at most ${most} ${what}. Wait until it has ended.` }))

type Internal = OperationStoreError | TranscriptError

/** The cause goes to the log. */
export const orUnavailable = <A, E>(
  effect: Effect.Effect<A, E>
): Effect.Effect<A, Exclude<E, Internal> | Unavailable> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, Exclude<E, Internal> | Unavailable> =>
      error instanceof OperationStoreError || error instanceof TranscriptError
        ? Effect.andThen(Effect.logError(error.message, error.cause), new Unavailable({}))
        : Effect.fail(error as Exclude<E, Internal>)
  )
