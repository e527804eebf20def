/**
 * Health of the server: its stores answer, and it is not shutting down.
 *
 * Checked on request, at most every two seconds. Details of a store's problem go to the log.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Journal from "../../core/store/Journal.ts"
import { SessionRegistry } from "../../core/store/SessionRegistry.ts"
import { StateStore } from "../../core/store/StateStore.ts"
import { Outages } from "../../internal/outages.ts"
import type { Status } from "../api/ApiRecords.ts"
import * as Draining from "../sessions/Draining.ts"
import { WaveStore } from "../waves/WaveStore.ts"

/** The current health. */
export class Health extends Context.Service<Health, {
  readonly now: Effect.Effect<Pick<Status, "status" | "checks">>
}>()("effect-tool-executor/server/Health") {}

/** Layer that checks the stores in the context. */
export const layer: Layer.Layer<Health, never, Draining.Draining | StateStore> = Layer.effect(
  Health,
  Effect.gen(function*() {
    const { isBegun } = yield* Draining.Draining
    const state = yield* StateStore
    const journal = Option.filter(yield* Effect.serviceOption(Journal.Journal), (it) => it !== Journal.noop)
    const registry = yield* Effect.serviceOption(SessionRegistry)
    const waves = yield* Effect.serviceOption(WaveStore)
    const check = checkWith(new Outages())
    const asked = [
      check("state", Effect.flatMap(Clock.currentTimeMillis, (now) => state.grants("", now))),
      ...Option.toArray(journal).map((it) =>
        check("journal", Effect.andThen(Stream.runDrain(Stream.take(it.read(behindAll), 1)), canWrite(it, registry)))
      ),
      ...Option.toArray(waves).map((it) => check("waves", it.get({ user: "", session: "" }, "")))
    ]
    const checks = yield* Effect.cachedWithTTL(Effect.all(asked, { concurrency: "unbounded" }), "2 seconds")
    return Health.of({
      now: Effect.zipWith(isBegun, checks, (isStopping, checks) => ({
        status: isStopping ? "stopping" : checks.every((it) => it.isOk) ? "ready" : "failing",
        checks
      }))
    })
  })
)

const patience = "2 seconds"

const behindAll = { after: Number.MAX_SAFE_INTEGER }

/** Whether the journal can be written, where other processes can end its terms. */
const canWrite = (
  { term }: Journal.Journal["Service"],
  registry: Option.Option<SessionRegistry["Service"]>
): Effect.Effect<void, string> => {
  if (term === undefined) return Effect.void
  return Option.isSome(registry)
    ? Effect.filterOrFail(
      Effect.sync(() => registry.value.runner.isHeld),
      (it) => it,
      () => "the lease of this process has expired"
    )
    : Effect.filterOrFail(
      Effect.suspend(() => term("").renew),
      (it) => it === true,
      () => "the term of the journal has ended and no new one has begun"
    )
}

const checkWith =
  (outages: Outages) => <E>(name: string, asked: Effect.Effect<unknown, E>): Effect.Effect<Status["checks"][number]> =>
    Effect.flatMap(
      Effect.exit(Effect.timeoutOption(asked, patience)),
      (exit) =>
        Exit.isSuccess(exit)
          ? Effect.succeed(
            Option.isSome(exit.value)
              ? { name, isOk: true }
              : { name, isOk: false, problem: `It did not answer within ${patience}.` }
          )
          : Effect.as(
            outages.warn(`The store of ${name} does not answer`, exit.cause),
            { name, isOk: false, problem: "It does not answer. See the server's log." }
          )
    )
