/** Tells others of the ends of waves and operations, such as a workflow that waits for one. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { annotated, type Owner } from "../users/Principals.ts"

/**
 * A listener, told of each end once it is stored, in the process where it ended. A process that is killed in between
 * does not tell, so a listener also has to look from time to time.
 */
export class EndListener extends Context.Service<EndListener, {
  readonly ended: (owner: Owner, what: "operation" | "wave", name: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/EndListener") {}

/** Tells a listener, if there is one. Nobody waits long for it. */
export const tell = (
  listener: EndListener["Service"] | undefined,
  { session, user }: Owner,
  what: "operation" | "wave",
  name: string
): Effect.Effect<void> =>
  listener === undefined ? Effect.void : listener.ended({ user, session }, what, name).pipe(
    Effect.timeoutOption("5 seconds"),
    Effect.catchCause((cause) => Effect.logWarning("A listener for ends failed", cause)),
    Effect.asVoid,
    annotated({ user, session }, name)
  )
