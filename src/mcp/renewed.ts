/** What clients of MCP share for a while: their calls know no model step, so one begins when none is under way. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** Shares one value among all scopes that use it at the same time; the next user after the last gets a new one. */
export const renewed = <A, E>(make: Effect.Effect<A, E>): Effect.Effect<A, E, Scope.Scope> => {
  let current: { readonly made: A; users: number } | undefined
  const take = Effect.suspend(() =>
    current === undefined ? Effect.map(make, (made) => current ??= { made, users: 0 }) : Effect.succeed(current)
  )
  const acquire = Effect.map(take, (it) => {
    it.users++
    return it
  })
  const release = (it: NonNullable<typeof current>) =>
    Effect.sync(() => {
      if (--it.users === 0 && current === it) current = undefined
    })
  return Effect.map(Effect.acquireRelease(acquire, release), ({ made }) => made)
}
