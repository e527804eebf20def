/** A door itself, whatever transport it is put before: what waits until the tools are there, what runs, and how both end. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"

/** A door. */
export interface McpDoor {
  /**
   * Ends what it serves: whatever runs or waits is cancelled, what still comes
   * is, too. Is done once every call has its answer, or does not get one in time.
   */
  readonly end: (reason: string) => Effect.Effect<void>
  /** Done when it is to end, with the reason. */
  readonly ending: Effect.Effect<string>
  /** Done when every call has its answer. */
  readonly over: Effect.Effect<void>
  /** Done when the tools are there, or nobody has to wait for them any longer. */
  readonly ready: Effect.Effect<void>
  /** Lets those that wait for tools go on: they are listed. */
  readonly open: Effect.Effect<void>
  /** Counts the call as one without an answer while it runs. */
  readonly serve: <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Whether a message of a client may go on: what needs tools waits until they are
   * there, and may not where it is cancelled meanwhile, by a message of the same client, if that is known. `undefined`: it
   * may, at once.
   */
  readonly admit: (client: string | undefined, message: unknown) => Effect.Effect<boolean> | undefined
  /** How often the list of tools has changed; first how often until now. */
  readonly changes: Stream.Stream<number>
  /** How often the list of tools has changed until now. */
  readonly revision: () => number
  /** Says that the list has changed. */
  readonly changed: Effect.Effect<void>
}

/** Options of a door. */
export interface Options {
  /** Done when the tools are there, or nobody has to wait for them any longer. Default: they are there. */
  readonly ready?: Effect.Effect<void> | undefined
}

/** Creates a door. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<McpDoor> {
  const there = Deferred.makeUnsafe<boolean>()
  const ending = Deferred.makeUnsafe<string>()
  const idle = Deferred.makeUnsafe<void>()
  const over = Deferred.makeUnsafe<void>()
  const revision = yield* SubscriptionRef.make(0)
  const held = new Set<{ readonly keys: ReadonlyArray<string>; readonly cancelled: Deferred.Deferred<boolean> }>()
  let unanswered = 0
  const rest = () => {
    if (unanswered === 0 && Deferred.isDoneUnsafe(ending)) Deferred.doneUnsafe(idle, Effect.void)
  }
  const wait = (keys: ReadonlyArray<string>) => {
    const waiting = { keys, cancelled: Deferred.makeUnsafe<boolean>() }
    held.add(waiting)
    return Effect.raceAllFirst([
      Deferred.await(there),
      Deferred.await(waiting.cancelled),
      Effect.as(Deferred.await(ending), false)
    ]).pipe(Effect.ensuring(Effect.sync(() => held.delete(waiting))))
  }
  return {
    end: (reason) =>
      Effect.gen(function*() {
        Deferred.doneUnsafe(ending, Effect.succeed(reason))
        rest()
        yield* Effect.timeoutOption(Deferred.await(idle), patience)
        Deferred.doneUnsafe(over, Effect.void)
      }),
    ending: Deferred.await(ending),
    over: Deferred.await(over),
    ready: options.ready ?? Effect.void,
    open: Effect.sync(() => Deferred.doneUnsafe(there, Effect.succeed(true))),
    serve: (call) =>
      Effect.suspend(() => {
        unanswered++
        return Effect.ensuring(
          call,
          Effect.sync(() => {
            unanswered--
            rest()
          })
        )
      }),
    admit: (client, message) => {
      // what comes while others wait does not overtake them
      if (Deferred.isDoneUnsafe(there) && held.size === 0) return undefined
      const messages = (Array.isArray(message) ? message : [message]).filter(Predicate.isObject) as ReadonlyArray<
        Message
      >
      for (const { method, params } of messages) {
        if (
          client === undefined || method !== "notifications/cancelled" || !Predicate.hasProperty(params, "requestId")
        ) continue
        const key = keyOf(client, params.requestId)
        for (const { cancelled, keys } of held) {
          if (keys.includes(key)) Deferred.doneUnsafe(cancelled, Effect.succeed(false))
        }
      }
      const needy = messages.filter(({ method }) => method === "tools/list" || method === "tools/call")
      return needy.length === 0 ? undefined : wait(client === undefined ? [] : needy.map(({ id }) => keyOf(client, id)))
    },
    changes: SubscriptionRef.changes(revision),
    revision: () => SubscriptionRef.getUnsafe(revision),
    changed: SubscriptionRef.update(revision, (it) => it + 1)
  }
})

// Utilities

/** How long calls may take to end once they are told to; more than a handler has to clean up. */
const patience = "8 seconds"

interface Message {
  readonly id?: unknown
  readonly method?: unknown
  readonly params?: unknown
}

const keyOf = (client: string, id: unknown): string => JSON.stringify([client, typeof id, String(id)])
