/**
 * What circuits and rate limits do in a database, beside what effect's stores in
 * memory do: any sequence of calls and waits has the same answers.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as RateLimiter from "effect/persistence/RateLimiter"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as Circuits from "../../src/sql/circuitSteps.ts"
import type { Step } from "../../src/sql/KeyedStates.ts"
import * as Rates from "../../src/sql/rateSteps.ts"

/** A row as the table keeps it, by the clock of the test. */
class Row<S> {
  private state: S | undefined
  private expiresAt = 0

  modify<A>(step: (state: S | undefined, now: number) => Step<A, S>): Effect.Effect<A> {
    return Effect.map(Clock.currentTimeMillis, (now) => {
      const { answer, next } = step(this.expiresAt <= now ? undefined : this.state, now)
      if (next !== undefined) {
        this.state = next.state
        this.expiresAt = next.expiresAt ?? this.expiresAt
      }
      return answer
    })
  }
}

const millis = Schema.Literals([0, 1, 250, 334, 400, 900, 1_000, 2_500, 60_000, 3_600_000])
const tokens = Schema.Literals([0, 1, 2, 3])
const many = { arbitrary: { runs: 150 } }
const sequence = <S extends Schema.Top>(of: S) => Schema.Array(of).check(Schema.isMinLength(30), Schema.isMaxLength(50))

const rateOf = <A>(use: (store: RateLimiter.RateLimiterStore["Service"]) => Effect.Effect<A, unknown>) =>
  Effect.flatMap(
    Layer.build(Layer.fresh(RateLimiter.layerStoreMemory)),
    (context) => use(Context.get(context, RateLimiter.RateLimiterStore))
  )

/** What it gives, or what it fails with. */
const settled = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A | E> =>
  Effect.match(effect, { onFailure: (error): A | E => error, onSuccess: (value) => value })

const refillRate = Duration.millis(1_000 / 3)

describe("in a database, as in memory,", () => {
  it.effect.prop(
    "a fixed window has the same tokens",
    [Schema.Struct({ limited: Schema.Boolean, calls: sequence(Schema.Struct({ wait: millis, tokens })) })],
    ([{ calls, limited }]) =>
      rateOf((memory) =>
        Effect.gen(function*() {
          const row = new Row<typeof Rates.Window.Type>()
          for (const { tokens, wait } of calls) {
            yield* TestClock.adjust(wait)
            const options = { key: "k", tokens, refillRate, limit: limited ? 3 : undefined }
            assert.deepStrictEqual(
              yield* row.modify(Rates.fixedWindow(options)),
              yield* memory.fixedWindow(options)
            )
          }
        })
      ),
    many
  )

  it.effect.prop(
    "a bucket has the same tokens",
    [Schema.Struct({ allowOverflow: Schema.Boolean, calls: sequence(Schema.Struct({ wait: millis, tokens })) })],
    ([{ allowOverflow, calls }]) =>
      rateOf((memory) =>
        Effect.gen(function*() {
          const row = new Row<typeof Rates.Bucket.Type>()
          for (const { tokens, wait } of calls) {
            yield* TestClock.adjust(wait)
            const options = { key: "k", tokens, refillRate, limit: 3, allowOverflow }
            const [remaining, elapsed] = yield* row.modify(Rates.tokenBucket(options))
            const [inMemory, elapsedInMemory] = yield* memory.tokenBucket(options)
            assert.strictEqual(remaining, inMemory)
            assert.closeTo(elapsed, elapsedInMemory, 1e-6)
          }
        })
      ),
    many
  )

  it.effect.prop(
    "a limit is learnt in the same way",
    [sequence(Schema.Union([
      Schema.Struct({ asks: tokens, wait: millis }),
      Schema.Struct({ told: tokens, wait: millis, isOld: Schema.Boolean, retryAfter: millis })
    ]))],
    ([calls]) =>
      rateOf((memory) =>
        Effect.gen(function*() {
          const row = new Row<typeof Rates.Adaptive.Type>()
          let epoch = 0
          for (const it of calls) {
            yield* TestClock.adjust(it.wait)
            if ("asks" in it) {
              const options = {
                key: "k",
                tokens: it.asks,
                fallbackLimit: 3,
                fallbackWindow: Duration.seconds(1)
              }
              const answer = yield* row.modify(Rates.adaptiveConsume(options))
              assert.deepStrictEqual(answer, yield* memory.adaptiveConsume(options))
              epoch = answer.epoch
            } else {
              const retryAfter = Duration.millis(it.retryAfter)
              const options = {
                key: "k",
                epoch: it.isOld ? epoch - 1 : epoch,
                tokens: it.told,
                status: 429,
                retryAfter
              }
              yield* row.modify(Rates.adaptiveFeedback(options, retryAfter))
              yield* memory.adaptiveFeedback(options)
            }
          }
        })
      ),
    many
  )

  it.effect.prop(
    "a circuit opens, is tried and closes",
    [Schema.Struct({
      rate: Schema.Boolean,
      calls: sequence(Schema.Struct({
        wait: millis,
        ends: Schema.Literals(["none", "oldest", "newest", "nothing"]),
        outcome: Schema.Literals(["Success", "Failure", "Ignored"])
      }))
    })],
    ([{ calls, rate }]) =>
      Effect.gen(function*() {
        const memory = Context.get(
          yield* Layer.build(CircuitBreaker.layerStoreMemory()),
          CircuitBreaker.CircuitBreakerStore
        )
        const row = new Row<Circuits.Circuit>()
        const times = { leaseMillis: Infinity, idleMillis: 3_600_000 }
        const tripPolicy = rate
          ? CircuitBreaker.rate({ threshold: 0.5, size: 4, minimumCalls: 2 })
          : CircuitBreaker.consecutive(2)
        // what each of them has let in
        const open: Array<readonly [CircuitBreaker.Admission, CircuitBreaker.Admission]> = []
        const scope = yield* Scope.Scope
        for (const { ends, outcome, wait } of calls) {
          yield* TestClock.adjust(wait)
          if (ends !== "oldest" && ends !== "newest") {
            const mine = yield* row.modify(Circuits.admit("k", times))
            const theirs = yield* settled(Scope.provide(memory.admit("k"), scope))
            if ("reason" in mine || "reason" in theirs) assert.deepStrictEqual(mine, theirs)
            else {
              assert.deepStrictEqual({ ...mine, generation: 0 }, { ...theirs, generation: 0 })
              open.push([mine, theirs])
            }
          } else {
            const [mine, theirs] = (ends === "oldest" ? open.shift() : open.pop()) ?? []
            if (mine === undefined || theirs === undefined) continue
            const options = {
              key: "k",
              outcome,
              tripPolicy,
              openFor: Duration.millis(1_000 * (mine.consecutiveOpenings + 1))
            }
            assert.deepStrictEqual(
              yield* row.modify(Circuits.record({ ...options, generation: mine.generation }, times)),
              yield* memory.record({ ...options, generation: theirs.generation })
            )
          }
          const state = yield* row.modify((circuit, now) => ({ answer: Circuits.stateOf("k")(circuit, now) }))
          assert.deepStrictEqual(state, yield* memory.state("k"))
        }
      }),
    many
  )
})
