/**
 * What records in PostgreSQL promise, tried at length: `npm run try -- stress`.
 *
 * Two processes make 20,000 calls against every limit; the connection is cut 500
 * times; a process is stopped past its lease 100 times; two processes resume 200 waves
 * at once, and two clients answer the questions of 200. `-- limits`, `-- cuts`, `-- stops`,
 * `-- resumes` and `-- answers` try one of them. Ends with 1 where a promise is broken.
 */
import * as Effect from "effect/Effect"
import * as Postgres from "../test/support/Postgres.ts"
import * as Resumes from "../test/support/resumes.ts"
import * as Cuts from "../test/support/stateCuts.ts"
import * as Stops from "../test/support/stateStops.ts"
import * as Workers from "../test/support/stateWorkers.ts"

const trials = {
  limits: (url: string) => Workers.limits(url, { waves: 200, calls: 50 }),
  cuts: (url: string) => Cuts.cuts(url, 500),
  stops: (url: string) => Stops.stops(url, 100),
  resumes: (url: string) => Resumes.resumes(url, 200),
  answers: (url: string) => Resumes.answers(url, 200)
}

const wanted = process.argv.slice(2)

const program = Effect.gen(function*() {
  const { database } = yield* Postgres.Postgres
  for (const [name, trial] of Object.entries(trials)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue
    const begin = performance.now()
    const { problems, summary } = yield* trial(yield* database)
    const seconds = ((performance.now() - begin) / 1_000).toFixed(1)
    console.log(`${name}: ${summary}, in ${seconds} s: ${problems.length === 0 ? "holds" : "BROKEN"}`)
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`)
    if (problems.length > 0) process.exitCode = 1
  }
}).pipe(Effect.scoped, Effect.provide(Postgres.layer))

await Effect.runPromise(program)
