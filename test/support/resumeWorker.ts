/**
 * A process that shares its records with others in one PostgreSQL: it runs waves until
 * it is killed or told to stop, resumes them, or asks about calls and takes answers
 * over HTTP. What it does it is told in one line, and tells in lines.
 */
import { Approvals, type ToolOutcome } from "effect-tool-executor"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as Subject from "../../scripts/crash/subject.ts"

export interface Options {
  readonly url: string
  /** Where the service is that the tools are for. */
  readonly service: string
  readonly work: "run" | "resume" | "ask"
  readonly batches: ReadonlyArray<string>
}

/** What a worker tells. */
export type Line =
  /** It goes on when it is told to. */
  | { readonly _tag: "Ready" }
  /** Answers are taken here. */
  | { readonly _tag: "Listening"; readonly at: string }
  | { readonly _tag: "Asked"; readonly id: string; readonly batch: string }
  | { readonly _tag: "Ended"; readonly batch: string; readonly outcomes: ReadonlyArray<ToolOutcome.ToolOutcome> }
  | { readonly _tag: "Told"; readonly batch: string; readonly reason: string }

const { batches, service, url, work } = JSON.parse(process.argv[2]!) as Options

const print = (line: Line) => void process.stdout.write(`${JSON.stringify(line)}\n`)

const line = Effect.promise(() => once(process.stdin, "data"))

const all = <A, E, R>(each: (batch: string) => Effect.Effect<A, E, R>) =>
  Effect.forEach(batches, each, { concurrency: "unbounded", discard: true })

const run = (batch: string) =>
  Effect.gen(function*() {
    const turn = yield* Subject.processOf(batch)
    const { outcomes } = yield* turn.executeWave(Subject.waveOf(batch))
    print({ _tag: "Ended", batch, outcomes })
  }).pipe(Effect.scoped)

/** Whoever cannot be told now asks again. */
const resume = (batch: string) =>
  Effect.gen(function*() {
    const turn = yield* Subject.processOf(batch)
    const { outcomes } = yield* Effect.retry(turn.resume(Subject.waveOf(batch)), {
      while: (error) => error._tag === "ResumeError" && error.reason === "Unavailable",
      schedule: Schedule.spaced("100 millis"),
      times: 50
    })
    print({ _tag: "Ended", batch, outcomes })
  }).pipe(
    Effect.catch((error) =>
      Effect.sync(() => print({ _tag: "Told", batch, reason: "reason" in error ? error.reason : error._tag }))
    ),
    Effect.scoped
  )

/** Takes answers at `/answer?id=…`, of whoever sends them. */
const listen = Effect.gen(function*() {
  const approvals = yield* Approvals.Approvals
  const server = createServer((request, response) => {
    const id = new URL(request.url!, "http://localhost").searchParams.get("id")!
    const taken = Effect.match(approvals.answer(id, { _tag: "ApproveOnce" }), {
      onFailure: ({ reason }) => reason,
      onSuccess: () => "taken"
    })
    void Effect.runPromise(taken).then((text) => response.end(text))
  })
  yield* Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  print({ _tag: "Listening", at: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  return approvals
})

const works = {
  run: Effect.raceFirst(all(run), line),
  resume: Effect.andThen(line, all(resume)),
  ask: Effect.gen(function*() {
    const approvals = yield* listen
    const asking = Stream.runForEach(approvals.changes, (change) =>
      Effect.sync(() => {
        if (change._tag === "Requested") print({ _tag: "Asked", batch: change.request.batch, id: change.request.id })
      }))
    yield* Effect.forkScoped(asking, { startImmediately: true })
    yield* all(run)
  })
}

/** Only those that are killed are to be taken for dead soon. */
const settings = {
  lease: work === "run" ? Subject.lease : "30 seconds",
  policy: { default: work === "ask" ? "ask" : "allow" }
} as const

const program = Effect.gen(function*() {
  print({ _tag: "Ready" })
  yield* works[work]
}).pipe(
  Effect.scoped,
  Effect.provide(Layer.provideMerge(Subject.layer(url, service, settings), Approvals.layer()))
)

await Effect.runPromise(program)
process.stdout.write("", () => process.exit(0))
