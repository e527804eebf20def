/**
 * The lifecycle of a gateway: when its tools are there, that their list has changed, and when it ends.
 *
 * The gateway, its transport and its host share one. The end of standard input ends the client: waiting calls never
 * start, approval requests are withdrawn and running calls are interrupted.
 *
 * **Example** (A server that answers every call before it ends)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { McpProtocol, McpServer } from "effect/ai"
 * import { GatewayLifecycle, GatewayStdio, McpGateway } from "effect-tool-executor/mcp"
 *
 * export const serve = Effect.gen(function*() {
 *   const lifecycle = yield* GatewayLifecycle.make()
 *   const server = McpServer.layerStdio({
 *     name: "tools",
 *     version: "1.0.0",
 *     protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
 *     registrations: McpGateway.layer({ lifecycle }) // requires ToolExecutor
 *   })
 *   // `lifecycle.end(reason)` cancels running calls and waits until every call is answered
 *   yield* Layer.launch(Layer.provide(server, GatewayStdio.layer(lifecycle)))
 * })
 * ```
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Stream from "effect/Stream"
import * as SubscriptionRef from "effect/SubscriptionRef"

export interface GatewayLifecycle {
  /** Cancels all calls, now and from now on. Completes once every call is answered, at the latest after 8 seconds. */
  readonly end: (reason: string) => Effect.Effect<void>
  /** Completes when the gateway is to end, with the reason. */
  readonly ending: Effect.Effect<string>
  /** Completes when every call is answered. */
  readonly over: Effect.Effect<void>
  /** Completes when the tools are there, or clients need not wait for them any longer. */
  readonly ready: Effect.Effect<void>
  /** Admits the messages that wait for tools. */
  readonly open: Effect.Effect<void>
  /** Counts the call as unanswered while it runs. */
  readonly serve: <A, E, R>(call: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Tells whether a message of a client is admitted; `undefined`: immediately. A message that needs tools waits for
   * them, and is not admitted if its client cancels it meanwhile.
   */
  readonly admit: (client: string | undefined, message: unknown) => Effect.Effect<boolean> | undefined
  /** The revision of the list of tools: the current one, then every new one. */
  readonly changes: Stream.Stream<number>
  /** The current revision of the list of tools. */
  readonly revision: () => number
  /** Reports that the list has changed. */
  readonly changed: Effect.Effect<void>
}

export interface Options {
  /** Completes when the tools are there, or clients need not wait for them any longer. Default: immediately. */
  readonly ready?: Effect.Effect<void> | undefined
}

/** Creates a lifecycle. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<GatewayLifecycle> {
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
        yield* Effect.timeoutOption(Deferred.await(idle), endTimeout)
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
      // a message does not overtake those that wait
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

/** Time for cancelled calls to end; longer than the cleanup time of a handler. */
const endTimeout = "8 seconds"

interface Message {
  readonly id?: unknown
  readonly method?: unknown
  readonly params?: unknown
}

const keyOf = (client: string, id: unknown): string => JSON.stringify([client, typeof id, String(id)])
