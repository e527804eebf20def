/** One random world: runners that come, go and lose their way to the database while clients run their programs. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import type { Entry } from "../../src/server/api/ApiRecords.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import * as Postgres from "./Postgres.ts"
import { Client, type Submitted } from "./serviceClient.ts"
import * as Laws from "./serviceLaws.ts"
import * as Programs from "./servicePrograms.ts"
import * as Runners from "./serviceRunners.ts"
import * as World from "./serviceWorld.ts"

/** What becomes of runners. */
export const troubles = ["close", "kill", "cut", "silence", "slow"] as const

/** A trouble of runners. */
export type Trouble = typeof troubles[number]

/** How a random world is made. */
export interface Options {
  readonly seed: number
  readonly sessions: number
  readonly runners: number
  /** What may become of runners; none: they live quietly. */
  readonly troubles: ReadonlyArray<Trouble>
}

/** What was seen, over all sessions. */
export interface Report {
  /** What is wrong, with the programs and what happened to them. */
  readonly problems: ReadonlyArray<string>
  /** Outcomes and troubles, counted. */
  readonly counted: ReadonlyMap<string, number>
}

/** Runs one world over a database of its own. */
export const trial = (options: Options) => {
  const events: Array<string> = []
  const logger = Logger.map(Logger.formatLogFmt, (line) => void events.push(line.slice(0, 1_000)))
  return Effect.provide(run(options, events), Logger.layer([logger]))
}

const run = Effect.fnUntraced(function*(
  { runners: count, seed, sessions, troubles }: Options,
  events: Array<string>
) {
  const random = randomFrom(seed)
  const url = yield* (yield* Postgres.Postgres).database
  const ledger = new World.Ledger()
  const since = Date.now()
  const happened = (text: string) => void events.push(`${String(Date.now() - since).padStart(6)} ${text}`)
  const counted = new Map<string, number>()
  const add = (what: string) => void counted.set(what, (counted.get(what) ?? 0) + 1)

  let born = 0
  const join = Effect.suspend(() => Runners.start(url, ledger, `r${born++}`))
  const runners = yield* Effect.all(Array.from({ length: count }, () => join), { concurrency: "unbounded" })

  const programs = Array.from({ length: sessions }, (_, index) => {
    const name = `s${index}`
    const client = new Client(
      { user: `ada${index % 3}`, session: name },
      () => runners,
      randomFrom(seed * 1_000 + index),
      ledger
    )
    return { client, program: Programs.make(random, name) }
  })

  /** Something happens to a runner; it ends well. */
  const trouble = Effect.suspend(() => {
    const open = runners.filter(({ isIn }) => isIn)
    const runner = random.pick(open)
    const kind = random.pick(troubles)
    const millis = random.pick([200, 1_000, 4_000])
    happened(`${kind} ${runner.life.name} ${kind === "close" || kind === "kill" ? "" : `for ${millis} ms`}`)
    add(`trouble ${kind}`)
    const replaced = Effect.andThen(join, (it) => Effect.sync(() => void runners.push(it)))
    switch (kind) {
      case "close":
        return open.length > 1 && random.chance(0.5)
          ? Effect.andThen(runner.close, replaced)
          : Effect.andThen(replaced, runner.close)
      case "kill":
        return random.chance(0.5) ? Effect.andThen(runner.kill, replaced) : Effect.andThen(replaced, runner.kill)
      case "cut":
        runner.proxy.cut()
        break
      case "silence":
        runner.proxy.down()
        break
      case "slow":
        runner.proxy.slow(40)
    }
    return Effect.andThen(Effect.sleep(millis), Effect.sync(() => runner.proxy.up()))
  })
  const allDone = yield* Deferred.make<void>()
  const healed = yield* Deferred.make<void>()
  /** A trouble that has begun ends: a runner that is half closed is none that anybody runs. */
  const healing = Effect.gen(function*() {
    while (troubles.length > 0 && !Deferred.isDoneUnsafe(allDone)) {
      yield* Effect.raceFirst(Effect.sleep(100 + random.int(1_500)), Deferred.await(allDone))
      if (!Deferred.isDoneUnsafe(allDone)) yield* trouble
    }
    yield* Deferred.await(allDone)
    for (const { isIn, proxy } of runners) if (isIn) proxy.up()
    if (!runners.some(({ isIn }) => isIn)) runners.push(yield* join)
    happened("healed")
    ledger.freeAll()
    Deferred.doneUnsafe(healed, Exit.void)
  })

  let done = 0
  const sessionOf = ({ client, program }: typeof programs[number]) =>
    Effect.gen(function*() {
      const readers: Array<Fiber.Fiber<void>> = []
      for (const step of program) {
        yield* client.run([step])
        if (step._tag === "Submit" && random.chance(0.5)) readers.push(yield* Effect.forkChild(client.read(step.wave)))
      }
      return readers
    }).pipe(
      Effect.onExit(() =>
        Effect.sync(() => {
          if (++done === sessions) Deferred.doneUnsafe(allDone, Exit.void)
        })
      ),
      Effect.flatMap((readers) =>
        Effect.gen(function*() {
          yield* Deferred.await(healed)
          yield* client.settle()
          yield* Effect.forEach(readers, Fiber.join)
          yield* Effect.forEach(client.waves.keys(), client.read)
        })
      ),
      Effect.exit,
      Effect.map((exit) => {
        if (Exit.isFailure(exit)) client.problem(Cause.pretty(exit.cause))
      })
    )
  yield* Effect.all([
    healing,
    Effect.forEach(programs, sessionOf, { concurrency: "unbounded", discard: true })
  ], { concurrency: "unbounded", discard: true })

  const problems: Array<string> = [...Laws.crowded(ledger)]
  for (const { client, program } of programs) {
    const journal = yield* entriesOf(client)
    const found = [...client.problems, ...Laws.problems(client, ledger, journal)]
    client.waves.forEach((wave) => count1(wave, add))
    client.told.forEach(({ how }) => add(`told ${how}`))
    client.given.forEach(({ how }) => add(`answered ${how}`))
    if (found.length > 0) problems.push(shown(client, program, ledger, journal, found))
  }
  problems.push(...yield* atRest(url, runners))
  return {
    problems: problems.length === 0 ? problems : [`seed ${seed}\n${events.join("\n")}`, ...problems],
    counted
  } satisfies Report
})

const count1 = (wave: Submitted, add: (what: string) => void): void => {
  for (const { _tag } of Laws.outcomesOf(wave.result)) add(_tag)
  add("waves")
}

/** All entries of a session, over pages. */
const entriesOf = Effect.fnUntraced(function*(client: Client) {
  const entries: Array<typeof Entry.Type> = []
  let after = 0
  while (true) {
    const page = yield* client.sure(
      "journal",
      (at) => at.journal(client.person("bob"), { ...client.owner, order: "oldest", after, limit: 200 })
    )
    entries.push(...page?.entries ?? [])
    if (page?.next === undefined) return entries
    after = page.next
  }
})

/** What is left once nobody uses the service: nothing in memory, no permit, and a journal that is whole. */
const atRest = (url: string, runners: ReadonlyArray<Runners.Runner>) =>
  Effect.gen(function*() {
    const sql = yield* PgClient.PgClient
    const problems: Array<string> = []
    const { findings } = yield* SqlJournal.verify()
    if (findings.length > 0) problems.push(`the journal is not whole: ${JSON.stringify(findings)}`)
    const held = Effect.gen(function*() {
      const [permits] = yield* sql<{ n: number }>`
        SELECT COUNT(*)::int AS n FROM tool_executor_permits WHERE until > EXTRACT(EPOCH FROM clock_timestamp()) * 1000`
      const now = yield* Effect.forEach(runners.filter(({ isIn }) => isIn), ({ life, status }) =>
        Effect.map(status.now, ({ sessions }) =>
          sessions === 0 ? [] : [`${life.name} holds ${sessions} sessions`]))
      return [...now.flat(), ...permits?.n === 0 ? [] : [`${permits?.n} permits are held`]]
    })
    let left = yield* held
    for (const until = Date.now() + 20_000; left.length > 0 && Date.now() < until; left = yield* held) {
      yield* Effect.sleep("50 millis")
    }
    return [...problems, ...left]
  }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 2 })))

const shown = (
  client: Client,
  program: Programs.Program,
  ledger: World.Ledger,
  journal: ReadonlyArray<typeof Entry.Type>,
  found: ReadonlyArray<string>
): string =>
  [
    `session ${client.owner.session}:`,
    ...found.map((it) => `  - ${it}`),
    "program:",
    Programs.print(program),
    "client:",
    ...client.log,
    "ledger:",
    ...ledger.lines.filter(({ key }) => key.startsWith(`${client.owner.session}.`)).map((
      { at, key, life, phase, tool }
    ) => `${at} ${life.name} ${phase} ${tool} ${key}`),
    "journal:",
    ...journal.map(({ entry, place }) => {
      const { _tag, at, callId, outcome, answer, gate, sentence, reason } = entry as Record<string, unknown>
      const more = JSON.stringify({ outcome, answer, gate, sentence, reason }).slice(0, 300)
      return `${place} ${at} ${_tag} ${callId} ${more}`
    })
  ].join("\n")
