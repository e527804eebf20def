/** Owners of sessions. The principal of a session is `user/session`. The user is always the authenticated one. */
import * as Effect from "effect/Effect"

/** A session of a user. */
export interface Owner {
  readonly user: string
  readonly session: string
}

export const toPrincipal = ({ session, user }: Owner): string => `${user}/${session}`

/** Annotates the logs of an effect with the owner, and the wave if there is one. */
export const annotated = (owner: Owner, wave?: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.annotateLogs(effect, {
    "tool_executor.principal": toPrincipal(owner),
    ...wave === undefined ? {} : { "tool_executor.wave": wave }
  })

/** The owner of a principal. A principal of another executor is a user with an unnamed session. */
export const fromPrincipal = (principal: string): Owner => {
  const at = principal.indexOf("/")
  return at < 0 ? { user: principal, session: "" } : { user: principal.slice(0, at), session: principal.slice(at + 1) }
}
