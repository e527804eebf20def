/**
 * Calls that are handed over again after whoever ran them is gone: what has an outcome
 * on record gets it, what never started runs, and what started and has no end runs
 * again only if it may.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as Detached from "../internal/detached.ts"
import type { Claim, Reservation } from "../store/Claims.ts"
import type * as Journal from "../store/Journal.ts"
import { isOfCall } from "../store/Journal.ts"
import type { Reconciled } from "../ToolAnnotations.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import { Attempt } from "./Attempt.ts"
import type { Call } from "./Call.ts"
import type { CallRecord } from "./CallRecord.ts"
import * as Claims from "./Claims.ts"
import { cancelled, type End } from "./End.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import { LiveContext } from "./LiveContext.ts"
import * as LookUp from "./LookUp.ts"
import * as Ports from "./Ports.ts"
import * as State from "./State.ts"
import type { ResumeProblem, Resumption } from "./WaveOptions.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * A call, and what goes on record of it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Record {
  readonly call: Call
  readonly record: CallRecord
}

/**
 * Looks up what is on record of calls, and takes over those without an end. Each of
 * them is decided by its record, or runs; or `resumption` says why none may.
 *
 * @category steps
 * @since 0.1.0
 */
export const resume = Effect.fnUntraced(function*(
  wave: WaveState,
  journal: JournalWriter,
  records: ReadonlyArray<Record>,
  resumption: Resumption
): Effect.fn.Return<void> {
  const { begunAt, engine: { store } } = wave
  const entries = yield* Effect.result(takeOver(wave, journal, records))
  if (Result.isFailure(entries)) {
    resumption.problem = entries.failure
    // they are somebody else's, or are resumed later: what counts for them is not forgotten with this process
    State.suspend(wave.process.open)
    for (const { call } of records) call.decided = cancelled("it could not be resumed")
    return
  }
  wave.events.release()
  // also of what is not run again the end is on record before anybody is told
  wave.isWritten = true
  const lives = livesOf(entries.success)
  // whoever had them is gone: what it had reserved and not started is free
  yield* Effect.forEach(
    Array.from(goneOf(entries.success)).filter(([session]) => session !== journal.session),
    ([session, started]) => store.abandon(session, begunAt, started),
    { concurrency: "unbounded", discard: true }
  )
  yield* Effect.forEach(
    records,
    ({ call, record }) => {
      const life = lives.get(record.key)
      call.trace?.resumes(life?.span)
      if (life?.settled !== undefined) return recall(wave, journal, call, life, life.settled)
      call.record = record
      record.arrived(true)
      return life === undefined ? Effect.void : goOn(wave, call, life, resumption.asks)
    },
    { concurrency: "unbounded", discard: true }
  )
})

// Utilities

/** Takes over calls that have no end; gives what is on record of all of them. */
const takeOver = Effect.fnUntraced(function*(
  wave: WaveState,
  journal: JournalWriter,
  records: ReadonlyArray<Record>
): Effect.fn.Return<ReadonlyArray<Journal.JournalEntry>, ResumeProblem> {
  const changed = yield* others(wave, journal, records)
  if (changed.length > 0) return yield* Effect.fail({ reason: "Changed" as const, calls: changed })
  const keys = records.map(({ record }) => record.key)
  const claimed = yield* claim(journal, keys, (ended) => giveBack(records, ended))
  if (claimed._tag === "Busy") {
    const busy = new Set(claimed.keys)
    const calls = records.filter(({ record }) => busy.has(record.key)).map(({ call }) => call.call.id)
    return yield* Effect.fail({ reason: "Running" as const, calls })
  }
  return yield* Effect.tapError(read(journal, { keys }), () => Effect.sync(() => giveBack(records, claimed.ended)))
})

/** What was taken over is free again. */
const giveBack = (records: ReadonlyArray<Record>, ended: ReadonlyArray<string>): void => {
  const over = new Set(ended)
  for (const { record } of records) if (!over.has(record.key)) record.suspended("it could not be resumed")
}

/** Takes over calls; what is taken over when nobody waits for it any more is given back. */
const claim = (
  journal: JournalWriter,
  keys: ReadonlyArray<string>,
  late: (ended: ReadonlyArray<string>) => void
): Effect.Effect<Journal.Claimed, ResumeProblem> =>
  Effect.suspend(() => {
    let isLate = false
    const claiming = Effect.map(journal.driver.claim(keys), (claimed) => {
      if (isLate && claimed._tag === "Claimed") late(claimed.ended)
      return claimed
    })
    return Effect.flatMap(Detached.within(Effect.uninterruptible(claiming), Ports.patience), (exit) => {
      if (exit?._tag === "Success") return Effect.succeed(exit.value)
      isLate = exit === undefined
      return Effect.fail(unavailable(exit === undefined ? "no answer in time" : exit.cause))
    })
  })

/**
 * Who has left calls without an end, which could be taken over since it is gone, and
 * what of its reservations is on record as started. Whoever has ended or suspended its
 * calls may be alive, and have others.
 */
const goneOf = (entries: ReadonlyArray<Journal.JournalEntry>): Map<string, Array<Reservation>> => {
  const gone = new Map<string, Array<Reservation>>()
  const open = new Map<string, string>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const { key, session } = entry
    if (entry._tag === "Arrived") {
      const before = open.get(key)
      if (before !== undefined && entry.isResumed === true) gone.set(before, [])
      open.set(key, session)
    } else if (entry._tag === "Settled" || entry._tag === "Suspended") open.delete(key)
  }
  for (const session of open.values()) gone.set(session, [])
  for (const entry of entries) {
    if (entry._tag === "Started" && entry.reservation !== undefined) gone.get(entry.session)?.push(entry.reservation)
  }
  return gone
}

/** What is on record of one call. */
interface Life {
  session: string
  /** A store that outlives its executors knows that it has started. */
  isSpent: boolean
  started: Journal.Of<"Started"> | undefined
  /** What was so before it was handed over for the last time. */
  before: Pick<Life, "isSpent" | "started">
  settled: ToolOutcome | undefined
  asked: Journal.Of<"Asked"> | undefined
  span: Journal.Of<"Arrived">["span"]
}

const livesOf = (entries: ReadonlyArray<Journal.JournalEntry>): Map<string, Life> => {
  const lives = new Map<string, Life>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const { key, session } = entry
    let life = lives.get(key)
    if (life === undefined || (entry._tag === "Arrived" && entry.isResumed !== true)) {
      const nothing = { settled: undefined, asked: undefined, span: undefined }
      lives.set(key, life = { ...nothing, ...notStarted, before: notStarted, session })
    }
    if (entry._tag === "Arrived") {
      const { isSpent, started } = life
      Object.assign(life, { session, span: entry.span, before: { isSpent, started } })
    } else if (entry._tag === "Suspended") {
      // it was about to start, and did not
      if (life.started !== undefined && isSameWave(life.started, entry)) Object.assign(life, life.before)
    } else if (entry._tag === "Started") {
      life.started = entry
      if (entry.reservation !== undefined) life.isSpent = true
    } else if (entry._tag === "Settled") life.settled = entry.outcome
    else if (entry._tag === "Asked") {
      // one that was asked again under its id has waited since it was asked first
      if (life.asked?.requestId !== entry.requestId) life.asked = entry
    } else if (entry._tag === "Answered" && entry.by !== "suspended" && entry.by !== "withdrawn") life.asked = undefined
  }
  return lives
}

const notStarted = { isSpent: false, started: undefined }

const isSameWave = (one: Journal.CallEntry, other: Journal.CallEntry): boolean =>
  one.session === other.session && one.process === other.process && one.wave === other.wave

/** Gives a call the outcome that is on record. */
const recall = (
  wave: WaveState,
  journal: JournalWriter,
  call: Call,
  { isSpent, session, started }: Life,
  outcome: ToolOutcome
): Effect.Effect<void> => {
  const { callId: _c, index: _i, queuedAt: _q, tool: _t, ...end } = outcome
  call.decided = end as unknown as End
  return started === undefined || isSpent || session === journal.session
    ? Effect.void
    : spend(wave, call, call.decided, started.at)
}

/** Lets a call go on from what is on record of it. */
const goOn = Effect.fnUntraced(function*(
  wave: WaveState,
  call: Call,
  { asked, isSpent, started }: Life,
  asks: boolean
): Effect.fn.Return<void> {
  const question = asked === undefined
    ? {}
    : { question: { id: asked.requestId, askedAt: asked.at, expiresAt: asked.expiresAt } }
  if (started === undefined) {
    call.resumed = question
    return
  }
  const { at, attempt, idempotencyKey, isEdited } = started
  const { decided, tool } = call
  const unless = { _tag: "Unknown", startedAt: at, attempt } as unknown as End
  const again = { unless, idempotencyKey, started: isSpent ? "spent" as const : "unknown" as const }
  if (tool?.readOnly === true) {
    call.resumed = { idempotencyKey, started: again.started }
    return
  }
  // from here on nothing is said of it but what is known
  call.resumed = again
  if (decided === undefined && isEdited !== true && tool !== undefined) {
    if (tool.idempotent) return
    const reconciled = yield* reconcile(wave, call, tool, started)
    if (reconciled._tag === "DidNotHappen") {
      call.resumed = { idempotencyKey, started: again.started }
      return
    }
    if (reconciled._tag === "Happened") return yield* happened(wave, call, tool, started, reconciled.result)
    if (asks) {
      // what was open may have been about what it would write
      call.resumed = { ...again, why: mayHaveHappened, ...(asked?.why === mayHaveHappened ? question : {}) }
      return
    }
  }
  if (!isSpent) yield* spend(wave, call, unless, at)
  call.decided = unless
})

const mayHaveHappened =
  "it was started before, and whatever ran it stopped before the result was recorded: it may have happened already"

/** Asks the tool itself whether a call has happened. */
const reconcile = (
  wave: WaveState,
  call: Call,
  tool: RegisteredTool,
  { at, idempotencyKey }: Journal.Of<"Started">
): Effect.Effect<Reconciled<unknown>> => {
  const ask = tool.reconcile
  if (ask === undefined) return Effect.succeed(cannotTell)
  const about = { idempotencyKey, startedAt: at, callId: call.call.id }
  return Effect.map(
    LookUp.lookUp(wave, tool, () => Effect.orDie(ask(call.gateCall!.params, about)), asReconciled),
    (it) => it ?? cannotTell
  )
}

const cannotTell: Reconciled<never> = { _tag: "CannotTell" }

const asReconciled = (answer: unknown): Reconciled<unknown> | undefined => {
  const { _tag } = answer as Reconciled<unknown>
  return _tag === "Happened" || _tag === "DidNotHappen" ? answer as Reconciled<unknown> : undefined
}

/** The call happened, and its tool knows with which result: it ends as if its handler had just given that. */
const happened = (
  wave: WaveState,
  call: Call,
  tool: RegisteredTool,
  started: Journal.Of<"Started">,
  result: unknown
): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const known = Object.assign(Object.create(tool) as RegisteredTool, {
      handler: () => Effect.succeed(result),
      retry: undefined
    })
    const attempt = new Attempt(wave, call, known, started.at, { millis: Infinity, which: "tool" })
    attempt.number = started.attempt - 1
    attempt.first = started.attempt
    call.phase = attempt
    wave.process.budget.execute(1, wave.now())
    attempt.start(call.gateCall!.params, new LiveContext(wave, call, attempt))
    attempt.atEnd(() => resume(Effect.void))
  })

/** What an earlier life of the call has used up is used up, where the store does not know of it. */
const spend = Effect.fnUntraced(function*(wave: WaveState, call: Call, end: End, startedAt: number) {
  if (call.gateCall === undefined) return
  const claims: End | ReadonlyArray<Claim> = Claims.of(wave, call)
  if ("_tag" in claims || claims.length === 0) return
  const { store } = wave.engine
  const [reserved] = yield* store.reserve(
    [{ owner: call.call.id, session: store.session, claims }],
    startedAt,
    wave.patience
  )
  if (reserved === undefined || "operation" in reserved || "_tag" in reserved) return
  const outcome = { callId: call.call.id, tool: call.call.name, commits: 0, ...end, startedAt } as ToolOutcome
  yield* store.settle(reserved, Claims.settlement(wave, call, outcome, false), startedAt, wave.patience)
})

/** Calls of these ids that are open with other arguments: nobody can say which of the two is meant. */
const others = Effect.fnUntraced(function*(
  wave: WaveState,
  journal: JournalWriter,
  records: ReadonlyArray<Record>
): Effect.fn.Return<ReadonlyArray<string>, ResumeProblem> {
  const { engine: { principal }, events: { origin }, process } = wave
  const agentPath = JSON.stringify(origin.agentPath)
  const keys = new Set(records.map(({ record }) => record.key))
  const open = new Map<string, string>()
  for (const entry of yield* read(journal, { principal, batch: origin.batch })) {
    if (!isOfCall(entry) || keys.has(entry.key) || JSON.stringify(entry.agentPath) !== agentPath) continue
    if (process.isNamed && entry.process !== process.id) continue
    if (entry._tag === "Arrived") open.set(entry.key, entry.callId)
    else if (entry._tag === "Settled") open.delete(entry.key)
  }
  const ids = new Set(open.values())
  return records.map(({ call }) => call.call.id).filter((id) => ids.has(id))
})

const read = (
  journal: JournalWriter,
  query: Journal.Query
): Effect.Effect<ReadonlyArray<Journal.JournalEntry>, ResumeProblem> =>
  Effect.flatMap(
    Detached.within(Stream.runCollect(journal.driver.read(query)), Ports.patience),
    (exit) =>
      exit?._tag === "Success"
        ? Effect.succeed(exit.value.map((it) => it.entry))
        : Effect.fail(unavailable(exit === undefined ? "no answer in time" : exit.cause))
  )

const unavailable = (cause: unknown): ResumeProblem => ({ reason: "Unavailable", calls: [], cause })
