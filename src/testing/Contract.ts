/**
 * What every driver of a port keeps, as checks that any test runner can run.
 *
 * A suite (`ArtifactStoreContract`, `CheckpointsContract`) makes checks from a driver. Each is a separate effect, with
 * a separate store: it fails or dies where the driver does not keep what its name says.
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

/** One thing that a driver keeps. */
export interface Check<Needs = never> {
  /** What it is, as the end of a sentence that begins with the port: "keeps an empty payload". */
  readonly name: string
  /** Fails or dies where the driver does not keep it. */
  readonly check: Effect.Effect<void, unknown, Needs>
}

/**
 * A driver under test. `Also` is what its layer has in addition to the store, such as a client of its database; `Needs`
 * is what all its checks need, such as a server.
 */
export interface Driver<Id, Options, Also = never, Needs = never> {
  /** An empty store within bounds, a new one for each check. */
  readonly layer: (options?: Options) => Layer.Layer<Id | Also, unknown, Needs>
  /**
   * Lets milliseconds pass for what the store keeps: for a driver that goes by a clock other than Effect's, such as its
   * database's. A `TestClock` passes them in any case.
   */
  readonly later?: ((millis: number) => Effect.Effect<void, unknown, Id | Also>) | undefined
}

/** What a suite holds of a port: a name, the bounds of the store, and what is tried with it. */
export interface Statement<Store, Options> {
  readonly name: string
  readonly options?: Options | undefined
  readonly body: (
    store: Store,
    /** Lets milliseconds pass. */
    later: (millis: number) => Effect.Effect<void, unknown>
  ) => Effect.Effect<void, unknown>
}

/** Makes checks of a driver: each with a store, a `TestClock` and a way to let time pass. */
export const checks = <Id, Store, Options, Also = never, Needs = never>(
  port: Context.Key<Id, Store>,
  { later = () => Effect.void, layer }: Driver<Id, Options, Also, Needs>,
  statements: ReadonlyArray<Statement<Store, Options>>
): ReadonlyArray<Check<Needs>> =>
  statements.map(({ body, name, options }) => ({
    name,
    check: Effect.contextWith((context: Context.Context<Id | Also>) =>
      body(
        Context.get(context, port),
        (millis) => Effect.andThen(TestClock.adjust(millis), Effect.provideContext(later(millis), context))
      )
    ).pipe(
      Effect.provide(layer(options), { local: true }),
      Effect.provide(TestClock.layer(), { local: true })
    )
  }))
