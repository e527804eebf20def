/**
 * Checks for drivers of a port, independent of the test runner.
 *
 * A suite such as `ArtifactStoreContract` makes the checks of a driver. Each is an effect with a new store that fails
 * or dies if the driver breaks what the check's name promises.
 *
 * **Example** (With any test runner)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ArtifactStore } from "effect-tool-executor"
 * import { ArtifactStoreContract } from "effect-tool-executor/testing"
 * import { describe, test } from "node:test"
 *
 * describe("ArtifactStore in memory", () => {
 *   for (const { check, name } of ArtifactStoreContract.make({ layer: ArtifactStore.layerMemory })) {
 *     test(name, () => Effect.runPromise(check))
 *   }
 * })
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"

/** One property of a driver. */
export interface Check<Needs = never> {
  /** The end of a sentence that starts with the port, such as "keeps an empty payload". */
  readonly name: string
  /** Fails or dies if the driver lacks the property. */
  readonly check: Effect.Effect<void, unknown, Needs>
}

/**
 * A driver under test. `Also` is what its layer provides besides the store, such as a database client; `Needs` is what
 * all checks require, such as a server.
 */
export interface Driver<Id, Options, Also = never, Needs = never> {
  /** A new, empty store for each check. */
  readonly layer: (options?: Options) => Layer.Layer<Id | Also, unknown, Needs>
  /**
   * Lets milliseconds pass for a driver with a clock other than Effect's, such as its database's. A `TestClock`
   * advances in any case.
   */
  readonly later?: ((millis: number) => Effect.Effect<void, unknown, Id | Also>) | undefined
}

/** Lets milliseconds pass. */
export type Later = (millis: number) => Effect.Effect<void, unknown>

/** The body of a check: it yields effects that fail or die if the driver lacks the property. */
export type Body = Generator<Effect.Effect<unknown, unknown>, void>

/** A property of a port: its name, the check, and the store's limits. */
export interface Statement<Store, Options> {
  readonly name: string
  readonly body: (store: Store, later: Later) => Body
  readonly options?: Options | undefined
}

/** States a property of a port. */
export const statement = <Store, Options>(
  name: string,
  body: Statement<Store, Options>["body"],
  options?: Options
): Statement<Store, Options> => ({ name, body, options })

/** Makes the checks of a driver, each with a store, a `TestClock` and a way to let time pass. */
export const checks = <Id, Store, Options, Also = never, Needs = never>(
  port: Context.Key<Id, Store>,
  { later = () => Effect.void, layer }: Driver<Id, Options, Also, Needs>,
  statements: ReadonlyArray<Statement<Store, Options>>
): ReadonlyArray<Check<Needs>> =>
  statements.map(({ body, name, options }) => ({
    name,
    check: Effect.contextWith((context: Context.Context<Id | Also>) =>
      Effect.gen(() =>
        body(
          Context.get(context, port),
          (millis) => Effect.andThen(TestClock.adjust(millis), Effect.provideContext(later(millis), context))
        )
      )
    ).pipe(
      Effect.provide(layer(options), { local: true }),
      Effect.provide(TestClock.layer(), { local: true })
    )
  }))
