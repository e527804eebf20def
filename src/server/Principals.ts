/**
 * Whose a session is, as executors and stores know it: the principal of a session is
 * `user/session`. A client never says whose a session is; it is always its own.
 */
import * as Effect from "effect/Effect"

/** A session of a user. */
export interface Owner {
  readonly user: string
  readonly session: string
}

/** Gives the principal of a session. */
export const toPrincipal = ({ session, user }: Owner): string => `${user}/${session}`

/** Names the owner, and the wave if there is one, in everything that an effect logs. */
export const annotated = (owner: Owner, wave?: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.annotateLogs(effect, {
    "tool_executor.principal": toPrincipal(owner),
    ...wave === undefined ? {} : { "tool_executor.wave": wave }
  })

/**
 * Gives whose a principal is. One that is not of this server, such as that of an executor beside
 * it, is a user with a session without a name.
 */
export const fromPrincipal = (principal: string): Owner => {
  const at = principal.indexOf("/")
  return at < 0 ? { user: principal, session: "" } : { user: principal.slice(0, at), session: principal.slice(at + 1) }
}
