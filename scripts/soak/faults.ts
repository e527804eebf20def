// Parts of the world that are in trouble for a while.
import { Effect } from "effect"
import type { Faults } from "effect-tool-executor/testing"
import * as SqlClient from "effect/sql/SqlClient"
import type { SeededRandom } from "../../test/support/randomCase.ts"

/**
 * What a driver does while it is in trouble: it refuses, it does its work and its answer is lost, or it answers
 * when the trouble is over.
 */
type Kind = "fails" | "loses" | "hangs"

/** A part of the world that may be in trouble. */
export class Faulty implements Faults.Trouble {
  trouble: Kind | undefined
  /** When the last trouble was over, by the clock of the process. */
  last = -Infinity
  private readonly waiting = new Set<() => void>()

  over(): void {
    this.trouble = undefined
    this.last = performance.now()
    for (const resume of Array.from(this.waiting)) resume()
    this.waiting.clear()
  }

  next(): Kind | undefined {
    return this.trouble
  }

  wait(): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const go = () => resume(Effect.void)
      this.waiting.add(go)
      return Effect.sync(() => this.waiting.delete(go))
    })
  }
}

/** Trouble of one part after another, for ever. */
export const trouble = (
  parts: ReadonlyArray<Faulty>,
  { chance, int, pick }: SeededRandom,
  kinds: ReadonlyArray<Kind>
) =>
  Effect.gen(function*() {
    const faulty = pick(parts)
    yield* Effect.sleep(1_000 + int(12_000))
    faulty.trouble = pick(kinds)
    yield* Effect.sleep(chance(0.2) ? 1_000 + int(5_000) : 50 + int(800))
    faulty.over()
  }).pipe(Effect.forever)

/** Somebody else's connection that keeps the whole database for itself now and then. */
export const locks = ({ chance, int }: SeededRandom) =>
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
