// The life of a session: executors that are opened and closed, turns of random waves, and all that hosts and people do
// to them meanwhile.
import { Cause, Effect, Exit, Fiber, Scope, Stream } from "effect"
import {
  type Approvals,
  type ToolCall,
  type ToolExecutor,
  type ToolOutcome,
  type ToolProcess
} from "effect-tool-executor"
import { inspect } from "node:util"
import { randomFrom, type SeededRandom } from "../../test/support/randomCase.ts"
import type { Host } from "./hosts.ts"
import * as Tools from "./tools.ts"

export class Seen {
  readonly problems: Array<string>
  /** How many calls have ended how. */
  readonly outcomes = new Map<string, number>()
  calls = 0
  waves = 0
  executors = 0
  resumed = 0
  interrupted = 0
  answered = 0
  /** Answers to questions that had one, or were not open any more. */
  late = 0

  constructor(problems: Array<string>) {
    this.problems = problems
  }

  /** Looks whether each call has one outcome. */
  ended(calls: ReadonlyArray<ToolCall.ToolCall>, outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): void {
    if (outcomes.map((it) => it.callId).join() !== calls.map((it) => it.id).join()) {
      this.problems.push(`${calls.length} calls had outcomes of ${outcomes.map((it) => it.callId).join()}`)
    }
    for (const it of outcomes) {
      const name = it._tag === "Denied" ? it.reason._tag : it._tag
      this.outcomes.set(name, (this.outcomes.get(name) ?? 0) + 1)
    }
  }
}

/** A wave that has no end yet, as far as its caller knows. */
export interface Unfinished {
  readonly batch: string
  readonly id: string
  readonly calls: ReadonlyArray<ToolCall.ToolCall>
  /** Why it could not be resumed. */
  readonly why?: string | undefined
}

/** A session, over all of its executors. */
export interface Session {
  readonly name: string
  readonly principal: string
  readonly hosts: ReadonlyArray<Host>
  readonly random: SeededRandom
  unfinished: Array<Unfinished>
  calls: number
  lastId: number
}

/** An executor of a session, which may be closed while it is used. */
export interface Life {
  readonly executor: ToolExecutor.Service
  readonly host: Host
  isClosed: boolean
  /** The last waves: what is on record of them may be lost where the journal is in trouble when the executor ends. */
  readonly waves: Array<Unfinished>
}

/** Lives until the time is over; ends with nothing open but what is in `unfinished`. */
export const live = (session: Session, seen: Seen, isOver: () => boolean) =>
  Effect.gen(function*() {
    const { chance, int, pick } = session.random
    while (!isOver()) {
      const scope = yield* Scope.make()
      const host = pick(session.hosts)
      const executor = yield* host.open(session.principal, session.random).pipe(
        Effect.provideService(Scope.Scope, scope)
      )
      seen.executors++
      const life: Life = { executor, host, isClosed: false, waves: [] }
      const lanes = yield* Effect.forEach(
        [session.unfinished.splice(0), []],
        (unfinished) => Effect.forkDetach(lane(session, life, unfinished, seen, isOver))
      )
      // closed in the middle, or when it has nothing to do
      if (chance(0.5)) yield* Effect.sleep(int(6_000))
      else yield* Fiber.awaitAll(lanes)
      const begin = performance.now()
      life.isClosed = true
      yield* Scope.close(scope, Exit.void)
      for (const exit of yield* Fiber.awaitAll(lanes)) {
        if (Exit.isFailure(exit)) seen.problems.push(`${session.name}: ${Cause.pretty(exit.cause)}`)
      }
      const wasInTrouble = host.journal.trouble !== undefined || host.journal.last > begin
      // what was not on record then never will be: in a database another term can take the calls over, in memory there
      // is none
      if (wasInTrouble && host.areSessions) session.unfinished = []
      else if (wasInTrouble) {
        const known = new Set(session.unfinished.map((it) => it.calls))
        session.unfinished.push(...life.waves.filter((it) => !known.has(it.calls)))
      }
    }
  })

/** Resumes what was left behind, and begins turn after turn. */
const lane = Effect.fnUntraced(function*(
  session: Session,
  life: Life,
  unfinished: ReadonlyArray<Unfinished>,
  seen: Seen,
  isOver: () => boolean
) {
  for (const it of unfinished) {
    if (life.isClosed || isOver()) session.unfinished.push(it)
    else yield* resume(session, life, it, seen)
  }
  const turns = 5 + session.random.int(15)
  for (let n = 0; n < turns && !life.isClosed && !isOver(); n++) {
    yield* Effect.scoped(turn(session, life, seen))
    yield* Effect.sleep(session.random.int(150))
  }
})

/** Hands a wave over again; it stays unfinished where that cannot be done now. */
export const resume = Effect.fnUntraced(function*(session: Session, life: Life, wave: Unfinished, seen: Seen) {
  const process = yield* life.executor.process({ batch: wave.batch, id: wave.id })
  const result = yield* Effect.result(process.resume(wave.calls))
  if (result._tag === "Success" && !life.isClosed) {
    seen.resumed += wave.calls.length
    life.waves.push(wave)
    return seen.ended(wave.calls, result.success.outcomes)
  }
  const why = result._tag === "Failure" ? result.failure : undefined
  session.unfinished.push({ ...wave, why: why === undefined ? "its executor was closed" : inspect(why, { depth: 5 }) })
  if (why !== undefined && (why._tag !== "ResumeError" || why.reason === "Changed")) {
    seen.problems.push(`${session.name} could not resume: ${why.message}`)
  }
}, Effect.scoped)

/** One turn of a model: some waves, in a batch that ends with it. */
const turn = Effect.fnUntraced(function*(session: Session, life: Life, seen: Seen) {
  const { chance, int } = session.random
  const name = `${session.name}.${++session.lastId}`
  const process = yield* life.executor.process({ batch: `batch ${name}`, id: name })
  for (let waves = 1 + int(3); waves > 0 && !life.isClosed; waves--) {
    const calls = Tools.wave(session.random, (kind) => `${kind} ${session.name}.${++session.lastId}`)
    const wave = { batch: process.batch, id: process.id, calls }
    seen.waves++
    seen.calls += calls.length
    session.calls += calls.length
    const running = chance(0.05)
      ? Effect.as(Stream.runDrain(Stream.take(process.stream(calls), int(3 * calls.length))), undefined)
      : process.executeWave(calls)
    const fiber = yield* Effect.forkChild(running)
    const meddling = yield* Effect.forkChild(meddle(session, life, process, calls, fiber))
    const exit = yield* Fiber.await(fiber)
    yield* Fiber.interrupt(meddling)
    const result = Exit.isSuccess(exit) ? exit.value : undefined
    if (Exit.isFailure(exit)) seen.interrupted++
    // an executor that ends has not ended its calls
    if (result === undefined || life.isClosed) session.unfinished.push(wave)
    else {
      seen.ended(calls, result.outcomes)
      life.waves.push(wave)
      if (life.waves.length > 60) life.waves.shift()
    }
  }
})

/** What hosts do while a wave runs. */
const meddle = Effect.fnUntraced(function*(
  { random: { chance, int, pick } }: Session,
  { executor }: Life,
  process: ToolProcess.ToolProcess,
  calls: ReadonlyArray<ToolCall.ToolCall>,
  fiber: Fiber.Fiber<unknown>
) {
  if (chance(0.6)) return
  yield* Effect.sleep(int(chance(0.5) ? 20 : 400))
  const other = Effect.gen(function*() {
    const fork = yield* executor.fork({ name: "other" })
    const process = yield* fork.process()
    yield* process.executeWave(calls.slice(0, 2).map((it) => ({ ...it, id: it.id.replace("c", "n") })))
  })
  const what: Effect.Effect<unknown, unknown, Scope.Scope> = pick([
    Fiber.interrupt(fiber),
    Fiber.interrupt(fiber),
    process.cancelCall(pick(calls).id),
    process.cancelCall(pick(calls).id),
    process.cancel("enough"),
    executor.completeBatch(process.batch),
    executor.revoke({ tool: "asked" }),
    executor.grants,
    executor.pruneExpired,
    other
  ])
  // stores may be in trouble, and executors over
  yield* Effect.ignore(what)
}, Effect.scoped)

/** Answers questions in all the ways there are, some of them twice at once; others are left alone. */
export const people = (approvals: Approvals.Approvals["Service"], seen: Seen, seed: number) =>
  Stream.runForEach(approvals.changes, (change) => {
    if (change._tag === "Ended") return Effect.void
    const { callId, id } = change.request
    const { chance, int, pick } = randomFrom(
      seed + Array.from(callId).reduce((sum, it) => 31 * sum + it.charCodeAt(0) | 0, 7)
    )
    if (chance(0.2)) return Effect.void
    const answer = Effect.suspend(() =>
      approvals.answer(
        id,
        pick<Approvals.Answer>([
          { _tag: "ApproveOnce" },
          { _tag: "ApproveOnce" },
          { _tag: "ApproveOnce", params: { act: "sleep", millis: 1, key: "edited", n: int(1_000_000) } },
          { _tag: "ApproveForDuration", duration: "3 seconds" },
          { _tag: "ApproveForScope", agents: "all" },
          { _tag: "Deny" }
        ])
      )
    )
    const all = Effect.forEach(chance(0.2) ? [answer, answer] : [answer], (it) => Effect.exit(it), {
      concurrency: "unbounded"
    })
    return Effect.forkDetach(Effect.delay(
      Effect.map(all, (exits) => {
        const taken = exits.filter(Exit.isSuccess).length
        seen.answered += taken
        seen.late += exits.length - taken
        if (taken > 1) seen.problems.push(`the question of ${callId} was answered ${taken} times`)
      }),
      int(300)
    ))
  })
