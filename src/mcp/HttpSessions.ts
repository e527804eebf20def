/**
 * A limited number of sessions of a gateway over HTTP. Clients may disappear without ending their session: if the limit
 * is reached, the idle session that was used longest ago ends, and its client starts another one.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import type * as Scope from "effect/Scope"

export interface Known {
  /** Requests and streams of it that are open. */
  open: number
  /** Its first request: what ends it goes the same way. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** The sessions, by their ids: the one that was used last stands last. */
export interface HttpSessions<A> {
  /** One that is used now. */
  readonly use: (id: string) => (A & Known) | undefined
  readonly add: (id: string, session: A & Known) => void
  readonly remove: (id: string) => void
  /** Makes room for a session that is about to begin, for the rest of the scope; false if all sessions are busy. */
  readonly makeRoom: Effect.Effect<boolean, never, Scope.Scope>
}

/** Creates the sessions. */
export const make = <A>(most: number): Effect.Effect<HttpSessions<A>, never, HttpRouter.HttpRouter> =>
  Effect.map(HttpRouter.HttpRouter, (router) => {
    const sessions = new Map<string, A & Known>()
    let coming = 0
    const come = Effect.acquireRelease(
      Effect.sync(() => {
        coming++
        return true
      }),
      () => Effect.sync(() => void coming--)
    )
    /** As its client would: the server behind this knows no other way. */
    const end = (id: string, { headers, url }: Known) =>
      Effect.suspend(() => {
        const request = new Request(`http://localhost${url}`, {
          method: "DELETE",
          headers: { ...headers, "mcp-session-id": id }
        })
        return router.asHttpEffect().pipe(
          Effect.provideService(HttpServerRequest.HttpServerRequest, HttpServerRequest.fromWeb(request)),
          Effect.scoped,
          Effect.ignoreCause
        )
      }).pipe(Effect.ensuring(Effect.sync(() => void sessions.delete(id))))
    return {
      use: (id) => {
        const session = sessions.get(id)
        if (session !== undefined) {
          sessions.delete(id)
          sessions.set(id, session)
        }
        return session
      },
      add: (id, session) => void sessions.set(id, session),
      remove: (id) => void sessions.delete(id),
      makeRoom: Effect.suspend(() => {
        if (sessions.size + coming < most) return come
        for (const [id, session] of sessions) {
          if (session.open === 0) return Effect.andThen(end(id, session), come)
        }
        return Effect.succeed(false)
      })
    }
  })
