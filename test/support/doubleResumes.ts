/** Waves that wait for approvals, continued by two runners at the same moment. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { Wave } from "../../src/server/api/ApiModels.ts"
import type { Owner } from "../../src/server/users/Principals.ts"
import { message as call } from "./directoryWorld.ts"
import * as Postgres from "./Postgres.ts"
import * as Runners from "./serviceRunners.ts"
import * as World from "./serviceWorld.ts"

const boss = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const tagsOf = ({ end, status }: Wave): ReadonlyArray<string> =>
  status === "ended" && end?._tag === "ToolsEnd" ? end.executionResults.map(({ _tag }) => _tag) : []

const often = Schedule.spaced("20 millis")

/** What becomes of the runner at which the waves were submitted, before they are continued at the two others. */
export const ends = ["closed", "killed", "none"] as const

/**
 * Submits waves that wait for approvals, and asks both of two runners at once to continue each: both get the submission
 * again, one of them the answer, and the other one the same answer. The handler runs once, and both tell the same result.
 */
export const trial = (count: number, end: typeof ends[number]) =>
  Effect.scoped(Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const ledger = new World.Ledger()
    const owners: ReadonlyArray<Owner> = Array.from(
      { length: count },
      (_, n) => ({ user: `ada${n % 20}`, session: `s${n}` })
    )
    const submission = ({ session }: Owner) => ({
      wave: "w",
      message: call([session, "pay", { key: session, does: "work" }])
    })
    const first = yield* Runners.start(url, ledger, "r0")
    yield* Effect.forEach(owners, (owner) => first.directory.submit(owner, submission(owner)), { concurrency: 10 })
    yield* Effect.repeat(first.directory.approvals(boss), {
      until: ({ pending }) => pending === count,
      schedule: often
    })
    const others = yield* Effect.all([Runners.start(url, ledger, "r1"), Runners.start(url, ledger, "r2")], {
      concurrency: "unbounded"
    })
    if (end === "closed") yield* first.close
    if (end === "killed") yield* first.kill
    const [one, two] = [others[0].directory, others[1].directory]
    const { open } = yield* one.approvals(boss)
    assert.lengthOf(open, count)
    const results = yield* Effect.forEach(
      open,
      (request) =>
        Effect.gen(function*() {
          const { hash, id } = request
          const answer = (at: typeof one) => Effect.exit(at.answer(boss, { id, hash, answer: { _tag: "ApproveOnce" } }))
          const resume = (at: typeof one) =>
            Effect.retry(at.submit(request, submission(request)), {
              while: (error) => error._tag === "Unavailable",
              schedule: often
            })
          const [answered] = yield* Effect.all(
            [Effect.all([answer(one), answer(two)], { concurrency: "unbounded" }), resume(one), resume(two)],
            { concurrency: "unbounded" }
          )
          assert.isTrue(answered.some(({ _tag }) => _tag === "Success"))
          const ended = (at: typeof one) =>
            Effect.repeat(
              Effect.retry(at.result(request, "w"), {
                while: (error) => error._tag === "Unavailable",
                schedule: often
              }),
              { until: ({ status }) => status === "ended", schedule: often }
            )
          return yield* Effect.all([ended(one), ended(two)], { concurrency: "unbounded" })
        }),
      { concurrency: 10 }
    )
    assert.lengthOf(results, count)
    for (const [told, toldAgain] of results) {
      assert.deepStrictEqual(tagsOf(told), ["Succeeded"])
      assert.deepStrictEqual(told.messages, toldAgain.messages)
    }
    for (const { session } of owners) assert.lengthOf(ledger.of(session, "began"), 1)
  }))
