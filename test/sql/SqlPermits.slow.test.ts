/** Processes that share caps and resource keys, and are killed and stopped. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Trials from "../support/permitTrials.ts"
import * as Postgres from "../support/Postgres.ts"

layer(Postgres.layer)("processes with shared permits", (it) => {
  const holds = (trial: (url: string) => Effect.Effect<{ readonly problems: ReadonlyArray<string> }>) =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const { problems } = yield* trial(yield* database)
      assert.deepStrictEqual(problems, [])
    }).pipe(Effect.provide(Postgres.realTime))

  it.effect(
    "run no more than the cap together, and have the permits of one that is killed within its lease",
    () => holds((url) => Trials.cap(url, 2)),
    60_000
  )

  it.effect(
    "never hold a key at once, and all of them have their turn",
    () => holds((url) => Trials.keys(url, 200)),
    60_000
  )

  it.effect(
    "write nothing with a permit that was lost while they stood still",
    () => holds((url) => Trials.frozen(url, 3)),
    60_000
  )
})
