/**
 * Two processes that resume the same waves at once, and two clients that answer the
 * same questions at once: whatever is done is done once, and who came second is told.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { spawn } from "node:child_process"
import * as Service from "../../scripts/crash/service.ts"
import * as Subject from "../../scripts/crash/subject.ts"
import { until } from "./commandProcess.ts"
import * as Postgres from "./Postgres.ts"
import { program } from "./programs.ts"
import type { Line, Options } from "./resumeWorker.ts"
import type { Found } from "./stateWorkers.ts"

/** Starts a worker for the rest of the scope; it is ready. */
const start = (options: Options) =>
  Effect.gen(function*() {
    const lines: Array<Line> = []
    const written = { text: "", errors: "", isOver: false }
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(
          process.execPath,
          [...program("test/support/resumeWorker.ts"), JSON.stringify(options)],
          { stdio: "pipe" }
        )
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    child.stdin.on("error", () => undefined)
    child.stderr.setEncoding("utf8").on("data", (text: string) => written.errors += text)
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const complete = `${written.text}${text}`.split("\n")
      written.text = complete.pop()!
      for (const it of complete) if (it.startsWith("{")) lines.push(JSON.parse(it) as Line)
    })
    child.once("close", () => written.isOver = true)
    const of = <T extends Line["_tag"]>(tag: T) =>
      lines.filter((it): it is Extract<Line, { readonly _tag: T }> => it._tag === tag)
    const waitFor = (condition: () => boolean) =>
      Effect.andThen(
        until(() => condition() || written.isOver),
        Effect.suspend(() => condition() ? Effect.void : Effect.die(new Error(written.errors)))
      )
    yield* waitFor(() => lines.length > 0)
    return {
      child,
      of,
      waitFor,
      go: Effect.sync(() => void child.stdin.write("go\n")),
      over: until(() => written.isOver)
    }
  })

const service = (hooks: Service.Hooks) =>
  Effect.acquireRelease(Effect.promise(() => Service.start(hooks)), (it) => Effect.sync(it.close))

/** Ends once nobody is taken for alive in the journal. */
const forgotten = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.repeat(
    sql`SELECT 1 FROM tool_executor_journal_terms
      WHERE ended_at IS NULL AND expires_at > extract(epoch FROM clock_timestamp()) * 1000`,
    { until: (rows) => rows.length === 0 }
  ))

const tagsOf = (outcomes: Extract<Line, { readonly _tag: "Ended" }>["outcomes"]) =>
  outcomes.map((it) => it._tag === "Denied" ? it.reason._tag : it._tag).join()

/** So many waves that one process was killed in, or has left behind, are resumed by two others at the same time. */
export const resumes = Effect.fnUntraced(function*(url: string, count: number) {
  const names = Array.from({ length: count }, (_, n) => `wave-${n}`)
  const calls = names.reduce((sum, name) => sum + Subject.waveOf(name).length, 0)
  let hits = 0
  const { count: countOf, url: at } = yield* service({ before: () => hits++, after: () => {} })
  const problems: Array<string> = []

  // one half is left in the middle by a process that is killed, the other by one that is told to stop
  for (const isKilled of [true, false]) {
    const batches = names.filter((_, n) => n % 2 === (isKilled ? 0 : 1))
    const [before, own] = [hits, batches.reduce((sum, name) => sum + Subject.waveOf(name).length, 0)]
    const worker = yield* start({ url, service: at, work: "run", batches })
    yield* worker.waitFor(() => hits - before >= own / 3)
    if (isKilled) worker.child.kill("SIGKILL")
    else yield* worker.go
    yield* worker.over
  }
  yield* Effect.provide(forgotten, Postgres.clientOf(url))

  const options = { url, service: at, work: "resume", batches: names } as const
  const workers = yield* Effect.all([start(options), start(options)], { concurrency: 2 })
  yield* Effect.forEach(workers, (it) => it.go)
  yield* Effect.forEach(workers, (it) => it.waitFor(() => it.of("Ended").length + it.of("Told").length === count))

  let [both, unknown] = [0, 0]
  for (const name of names) {
    const ended = workers.flatMap((it) => it.of("Ended").filter(({ batch }) => batch === name))
    const told = workers.flatMap((it) => it.of("Told").filter(({ batch }) => batch === name))
    const [first, second] = ended
    if (first === undefined) problems.push(`${name}: nobody resumed it`)
    if (told.some(({ reason }) => reason !== "Running")) problems.push(`${name}: ${told.map((it) => it.reason).join()}`)
    if (second !== undefined) {
      both++
      if (tagsOf(first!.outcomes) !== tagsOf(second.outcomes)) {
        problems.push(`${name}: one was told ${tagsOf(first!.outcomes)}, the other ${tagsOf(second.outcomes)}`)
      }
    }
    first?.outcomes.forEach((outcome, index) => {
      const done = countOf(`${name}/${index}`)
      if (outcome._tag === "Unknown") unknown++
      // one that ran may be stopped in the middle, where its lease could not be renewed in time
      const mayBeDone = outcome._tag === "Unknown" || (outcome._tag === "Cancelled" && outcome.started)
      const isRight = outcome._tag === "Succeeded" ? done === 1 : done <= (mayBeDone ? 1 : 0)
      // a read may be done again by whoever resumes it
      const isRead = outcome.tool === "read" && (outcome._tag !== "Succeeded" || done > 0)
      if (!isRead && !isRight) {
        problems.push(`${name}: ${outcome.tool} is ${outcome._tag} and was done ${done} times`)
      }
    })
  }
  const losers = workers.reduce((sum, it) => sum + it.of("Told").length, 0)
  const summary = `${count} waves of ${calls} calls resumed by two processes at once: ${losers} times one was told ` +
    `that the other works on it, ${both} times it got what was on record; ${unknown} calls unknown`
  const found: Found = { summary, problems }
  return found
}, Effect.scoped)

/** So many questions of one process, each answered by two clients at the same time. */
export const answers = Effect.fnUntraced(function*(url: string, count: number) {
  const names = Array.from({ length: count }, (_, n) => `question-${n}`)
  const { count: countOf, url: at } = yield* service({ before: () => {}, after: () => {} })
  const worker = yield* start({ url, service: at, work: "ask", batches: names })
  const problems: Array<string> = []
  const told = new Map<string, number>()
  yield* worker.waitFor(() => worker.of("Listening").length === 1)
  const [listening] = worker.of("Listening")
  const answered = new Set<string>()
  const answer = (id: string) =>
    Effect.promise(async () => (await fetch(`${listening!.at}/answer?id=${id}`, { method: "POST" })).text())
  while (worker.of("Ended").length < count) {
    yield* worker.waitFor(() =>
      worker.of("Ended").length === count || worker.of("Asked").some(({ id }) => !answered.has(id))
    )
    const asked = worker.of("Asked").filter(({ id }) => !answered.has(id))
    yield* Effect.forEach(asked, ({ batch, id }) =>
      Effect.gen(function*() {
        answered.add(id)
        const both = yield* Effect.all([answer(id), answer(id)], { concurrency: "unbounded" })
        for (const it of both) told.set(it, (told.get(it) ?? 0) + 1)
        if (both.toSorted().join() !== "NotPending,taken") {
          problems.push(`${batch}: two clients were told ${both.join()}`)
        }
      }), { concurrency: "unbounded", discard: true })
  }
  for (const { batch, outcomes } of worker.of("Ended")) {
    outcomes.forEach(({ _tag, callId }, index) => {
      const done = countOf(`${batch}/${index}`)
      if (_tag === "Succeeded" ? done !== 1 : done !== 0) problems.push(`${callId} of ${batch} was done ${done} times`)
    })
  }
  const summary = `${answered.size} questions answered by two clients at once: ${
    Array.from(told, ([what, times]) => `${times} ${what}`).join(", ")
  }`
  const found: Found = { summary, problems }
  return found
}, Effect.scoped)
