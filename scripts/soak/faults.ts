// Stores and journals that are in trouble for a while.
import { Effect, Stream } from "effect"
import { Journal, StateStore } from "effect-tool-executor"
import * as SqlClient from "effect/sql/SqlClient"
import type { Dice } from "../../test/support/randomCase.ts"

/**
 * What a driver does while it is in trouble: it refuses, it does its work and its answer is lost, or it answers
 * when the trouble is over.
 */
type Trouble = "fails" | "loses" | "hangs"

/** A part of the world that may be in trouble. */
export class Faulty {
  trouble: Trouble | undefined
  /** When the last trouble was over, by the clock of the process. */
  last = -Infinity
  private readonly waiting = new Set<() => void>()

  over(): void {
    this.trouble = undefined
    this.last = performance.now()
    for (const resume of Array.from(this.waiting)) resume()
    this.waiting.clear()
  }

  /** What a driver gives, if it gives something now. */
  through<A, E>(effect: () => Effect.Effect<A, E>, error: (cause: unknown) => E): Effect.Effect<A, E> {
    switch (this.trouble) {
      case undefined:
        return effect()
      case "fails":
        return Effect.fail(error("out of order"))
      case "loses":
        return Effect.andThen(effect(), Effect.fail(error("the answer was lost")))
      case "hangs":
        return Effect.andThen(
          Effect.callback<void>((resume) => {
            const go = () => resume(Effect.void)
            this.waiting.add(go)
            return Effect.sync(() => this.waiting.delete(go))
          }),
          Effect.suspend(effect)
        )
    }
  }
}

/** A state store that may be in trouble. */
export const store = (faulty: Faulty, driver: StateStore.StateStore["Service"]): StateStore.StateStore["Service"] => {
  const within = <Args extends ReadonlyArray<unknown>, A>(
    operation: string,
    method: (...args: Args) => Effect.Effect<A, StateStore.StateStoreError>
  ) =>
  (...args: Args) =>
    faulty.through(() => method(...args), (cause) => new StateStore.StateStoreError({ operation, cause }))
  return {
    reserve: within("reserve", driver.reserve),
    check: within("check", driver.check),
    start: within("start", driver.start),
    renew: within("renew", driver.renew),
    settle: within("settle", driver.settle),
    release: within("release", driver.release),
    abandon: within("abandon", driver.abandon),
    grant: within("grant", driver.grant),
    grants: within("grants", driver.grants),
    revoke: within("revoke", driver.revoke),
    mutated: within("mutated", driver.mutated),
    closeBatch: within("closeBatch", driver.closeBatch),
    pruneExpired: within("pruneExpired", driver.pruneExpired)
  }
}

/** A journal that may be in trouble. */
export const journal = (faulty: Faulty, driver: Journal.Journal["Service"]): Journal.Journal["Service"] => {
  const error = (operation: string) => (cause: unknown) => new Journal.JournalError({ operation, cause })
  return {
    ...driver,
    append: (lines, options) => faulty.through(() => driver.append(lines, options), error("append")),
    read: (query) => Stream.unwrap(faulty.through(() => Effect.succeed(driver.read(query)), error("read"))),
    claim: (keys) => faulty.through(() => driver.claim(keys), error("claim"))
  }
}

/** Trouble of one part after another, for ever. */
export const trouble = (parts: ReadonlyArray<Faulty>, { chance, int, pick }: Dice, kinds: ReadonlyArray<Trouble>) =>
  Effect.gen(function*() {
    const faulty = pick(parts)
    yield* Effect.sleep(1_000 + int(12_000))
    faulty.trouble = pick(kinds)
    yield* Effect.sleep(chance(0.2) ? 1_000 + int(5_000) : 50 + int(800))
    faulty.over()
  }).pipe(Effect.forever)

/** Somebody else's connection that keeps the whole database for itself now and then. */
export const locks = ({ chance, int }: Dice) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const tables = sql.literal("tool_executor_scopes, tool_executor_journal, tool_executor_journal_entries")
    const lock = sql.onDialectOrElse({
      pg: () => Effect.asVoid(sql`LOCK TABLE ${tables} IN ACCESS EXCLUSIVE MODE`),
      // its transactions take the file from their beginning
      orElse: () => Effect.void
    })
    yield* Effect.sleep(5_000 + int(10_000))
    // shorter than what is written is tried for: of what is lost when an executor ends nobody here would know
    const millis = chance(0.2) ? 2_000 + int(2_000) : 100 + int(700)
    yield* Effect.ignore(sql.withTransaction(Effect.andThen(lock, Effect.sleep(millis))))
  }).pipe(Effect.forever)
