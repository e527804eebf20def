// Sixteen sessions make random calls for minutes, while handlers, callers, people, stores and the journal do all that
// they are not supposed to; then nothing may be left, and memory must not have grown.
//
//     npm run try -- soak                        ten minutes over SQLite
//     npm run try -- soak --minutes 1 --seed 7   shorter, and other troubles
//     npm run try -- soak --store postgres       or memory
import { Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inspect } from "node:util"
import * as Postgres from "../../test/support/Postgres.ts"
import { randomFrom } from "../../test/support/randomCase.ts"
import { heap, median } from "../bench/measure.ts"
import { flags } from "../flags.ts"
import * as Faults from "./faults.ts"
import * as Hosts from "./hosts.ts"
import * as Left from "./left.ts"
import * as Sessions from "./sessions.ts"

const { minutes, seed, store } = flags({ minutes: 10, seed: 1, store: "sqlite" })

const millis = minutes * 60_000
const begin = performance.now()
const isOver = () => performance.now() - begin >= millis
const problems: Array<string> = []
const seen = new Sessions.Seen(problems)
const randomAt = (n: number) => randomFrom(1_000 * seed + n)
const samples: Array<number> = []

/** Megabytes of the heap from time to time: what is there after the first third has to be enough. */
const sampling = Effect.gen(function*() {
  yield* Effect.sleep(Math.max(500, millis / 240))
  samples.push(heap())
}).pipe(Effect.forever)

const third = (n: number) =>
  median(samples.slice(Math.floor(samples.length * n / 3), Math.floor(samples.length * (n + 1) / 3)))

/** Hosts that are opened and closed together. */
const open = (database: Hosts.Database, first: number) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const hosts = yield* Effect.forEach([0, 1], (n) => Hosts.make(database, randomAt(first + n), problems)).pipe(
      Effect.provideService(Scope.Scope, scope)
    )
    return { hosts, close: Scope.close(scope, Exit.void) }
  })

/** Resumes what sessions have left behind. */
const drain = (sessions: ReadonlyArray<Sessions.Session>, hostOf: (session: Sessions.Session) => Hosts.Host) =>
  Effect.forEach(
    sessions,
    (session) =>
      Effect.gen(function*() {
        const host = hostOf(session)
        const executor = yield* host.open(session.principal, session.random)
        const life = { executor, host, isClosed: false, waves: [] }
        for (let tries = 0; tries < 3 && session.unfinished.length > 0; tries++) {
          for (const it of session.unfinished.splice(0)) yield* Sessions.resume(session, life, it, seen)
        }
        for (const { batch, why } of session.unfinished) problems.push(`${batch}: ${why}`)
      }).pipe(Effect.scoped),
    { concurrency: 4, discard: true }
  )

const soak = (database: Hosts.Database) =>
  Effect.gen(function*() {
    const shared = yield* open(database, 100)
    const memory = yield* open(undefined, 110)
    const hosts = [...shared.hosts, ...memory.hosts]
    const sessions = Array.from({ length: 16 }, (_, n): Sessions.Session => {
      const name = `session ${n}`
      // what is shared in a database is: principals of several sessions, which go from host to host
      const own = n < 12 ? shared.hosts : memory.hosts
      return {
        name,
        principal: n < 12 && database !== undefined ? `principal ${n % 6}` : name,
        hosts: n < 12 && database !== undefined ? own : [own[n % 2]!],
        random: randomAt(n),
        unfinished: [],
        calls: 0,
        lastId: 0
      }
    })
    const faulty = [shared, memory].flatMap(({ hosts }, index) =>
      hosts.flatMap((it, n) => [
        // without leases nothing comes back of which nobody was told
        Faults.trouble(
          [it.store],
          randomAt(200 + 10 * index + n),
          it.areSessions ? ["fails", "hangs"] : ["fails", "loses", "hangs"]
        ),
        Faults.trouble([it.journal], randomAt(205 + 10 * index + n), ["fails", "hangs"])
      ])
    )
    const meddlers = yield* Effect.forEach([
      sampling,
      ...hosts.map((it) => Sessions.people(it.approvals, seen, seed)),
      ...faulty,
      ...database === undefined ? [] : [Effect.provide(Faults.locks(randomAt(220)), Hosts.client(database))]
    ], (it) => Effect.forkChild(it))
    yield* Effect.forEach(sessions, (it) => Sessions.live(it, seen, isOver), { concurrency: "unbounded" })
    yield* Fiber.interruptAll(meddlers)
    for (const it of hosts) for (const part of [it.store, it.journal]) part.over()
    // handlers that are deaf, and leases that nobody could give back
    yield* Effect.sleep(Hosts.lease)

    const inDatabase = sessions.filter((it) => it.hosts !== undefined && !it.hosts[0]!.areSessions)
    yield* drain(sessions.filter((it) => !inDatabase.includes(it)), (it) => it.hosts[0]!)
    for (const host of hosts) {
      problems.push(
        ...yield* Effect.scoped(Left.inHost(host, sessions.find((it) => it.hosts.includes(host))!.principal))
      )
    }
    yield* shared.close
    yield* memory.close
    if (database === undefined) return undefined
    const last = yield* open(database, 120)
    yield* drain(inDatabase, () => last.hosts[0]!)
    // batches are remembered for a while, and pruned by the store
    yield* Effect.sleep(Hosts.batchTimeToLive + 6_000)
    yield* last.close
    const calls = inDatabase.reduce((sum, it) => sum + it.calls, 0)
    const left = yield* Effect.provide(Left.inTables(calls), Hosts.client(database))
    for (const [what, count] of Object.entries(left)) if (count !== 0) problems.push(`${count} ${what} are left`)
    problems.push(...yield* Effect.provide(Left.open, Hosts.client(database)))
    return yield* Effect.provide(Left.entries, Hosts.client(database)).pipe(
      Effect.catch((error) => Effect.sync(() => void problems.push(`the journal cannot be read: ${inspect(error)}`)))
    )
  })

const folder = mkdtempSync(join(tmpdir(), "tool-executor-soak-"))

const databases: Readonly<Record<string, Effect.Effect<Hosts.Database, unknown, Postgres.Postgres>>> = {
  sqlite: Effect.succeed(join(folder, "records.db")),
  postgres: Effect.flatMap(Postgres.Postgres, (it) => it.database),
  memory: Effect.as(Effect.void, undefined)
}

const database = databases[store]
if (database === undefined) throw new Error(`--store: ${store} is none; there is sqlite, postgres and memory`)

const server = store === "postgres" ? Postgres.layer : Layer.succeed(Postgres.Postgres, undefined as never)

const entries = await Effect.runPromise(
  Effect.scoped(Effect.provide(Effect.flatMap(database, soak), [server, Logger.layer([])]))
)
rmSync(folder, { recursive: true, force: true })

const [middle, end] = [third(1), third(2)]
if (end > 1.05 * middle) problems.push(`the heap has grown from ${middle.toFixed(1)} to ${end.toFixed(1)} MB`)

const outcomes = Array.from(seen.outcomes).sort(([, one], [, other]) => other - one)
console.log(
  `${store}, seed ${seed}, ${minutes} minutes: ${seen.calls} calls in ${seen.waves} waves, ${seen.executors} executors
  ${outcomes.map(([name, count]) => `${count} ${name}`).join(", ")}
  ${seen.interrupted} waves interrupted, ${seen.resumed} calls handed over again, ${seen.answered} questions answered, ${seen.late} answers too late
  ${entries ?? 0} entries in the journal
  heap: ${third(0).toFixed(1)}, ${middle.toFixed(1)}, ${
    end.toFixed(1)
  } MB (medians of the thirds of ${samples.length} samples)
  ${problems.length} problems`
)
for (const problem of new Set(problems.slice(0, 30))) console.log(`  ${problem.slice(0, 500)}`)
process.exit(problems.length > 0 ? 1 : 0)
