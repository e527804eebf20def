/**
 * Calls that are submitted again after their process is gone. A call with a recorded outcome gets that outcome, a call
 * that never started runs, and a call that started without an end runs again only if that is safe or approved.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as Detached from "../../../internal/detached.ts"
import type * as Journal from "../../store/Journal.ts"
import type { Earlier, Reconciled } from "../../vocabulary/ToolAnnotations.ts"
import * as ToolAnswers from "../call/arrive/ToolAnswers.ts"
import type { Call } from "../call/Call.ts"
import * as CallClaims from "../call/dispatch/CallClaims.ts"
import { messageOf, type WaveHost } from "../call/WaveHost.ts"
import type { ResumeProblem, Resumption } from "../call/WaveOptions.ts"
import { cancelled, type End } from "../data/CallEnd.ts"
import type { Answered, Counted, Ended, Started } from "../data/Memory.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import type { CallRecord } from "../report/CallRecord.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"
import * as State from "../state/State.ts"
import * as EarlierWaves from "./EarlierWaves.ts"
import * as RecordedLives from "./RecordedLives.ts"

/** A call and its journal record. */
export interface Record {
  readonly call: Call
  readonly record: CallRecord
}

/**
 * Reads the records of calls and takes over those without an end. Each call is then decided by its record, or runs. If
 * none may run, `resumption` says why.
 */
export const resume = Effect.fnUntraced(function*(
  wave: WaveHost,
  journal: JournalWriter,
  records: ReadonlyArray<Record>,
  resumption: Resumption
): Effect.fn.Return<void> {
  const { begunAt, engine: { store } } = wave
  const entries = yield* Effect.result(takeOver(wave, journal, records))
  if (Result.isFailure(entries)) {
    resumption.problem = entries.failure
    // another process has them, or they are resumed later: this process must not forget what counts for them
    State.suspend(wave.process.open)
    for (const { call } of records) call.decided = cancelled("it could not be resumed")
    return
  }
  const lives = RecordedLives.of(entries.success)
  wave.reporter.release()
  const [earliest] = lives.values()
  if (earliest !== undefined) wave.message = messageOf(earliest.first.session, earliest.first, earliest.first.at)
  // a call that does not run again has its end on record, too, before it is reported
  wave.tally.isWritten = true
  const revoked = yield* revokedOf(wave, journal, lives)
  yield* Effect.forEach(
    records,
    (it) => {
      const life = lives.get(it.record.key)
      return life?.settled === undefined ? Effect.void : recall(wave, it, life, life.settled)
    },
    { concurrency: "unbounded", discard: true }
  )
  // their session is gone: free what it had reserved and not started
  yield* Effect.forEach(
    Array.from(RecordedLives.goneOf(entries.success)).filter(([session]) => session !== journal.session),
    ([session, started]) => store.abandon(session, begunAt, started),
    { concurrency: "unbounded", discard: true }
  )
  // its executor has closed meanwhile
  if (records.length > 0 && records.every(({ call }) => call.isSettled)) {
    return giveBack(
      wave,
      records,
      Array.from(lives).flatMap(([key, { settled }]) => settled === undefined ? [] : [key])
    )
  }
  yield* Effect.forEach(
    records,
    ({ call, record }) => {
      const life = lives.get(record.key)
      wave.facts?.report({ _tag: "Resumed", at: begunAt, span: life?.arrived?.span }, call)
      if (life?.settled !== undefined) return Effect.void
      call.observed = { ...call.observed, record }
      wave.facts?.report({ _tag: "Arrived", at: begunAt, isResumed: true }, call)
      if (life === undefined) return Effect.void
      const given = life.answered.flatMap((it) => answerOf(it, revoked, begunAt))
      return goOn(wave, { call, record }, life, given, resumption.asks)
    },
    { concurrency: "unbounded", discard: true }
  )
})

/** Takes over calls that have no end; gives the records of all of them. */
const takeOver = Effect.fnUntraced(function*(
  wave: WaveHost,
  journal: JournalWriter,
  records: ReadonlyArray<Record>
): Effect.fn.Return<ReadonlyArray<Journal.JournalEntry>, ResumeProblem> {
  const keys = records.map(({ record }) => record.key)
  const changed = yield* others(wave, journal, records, new Set(keys))
  if (changed.length > 0) return yield* Effect.fail({ reason: "Changed" as const, calls: changed })
  const claimed: Journal.Claimed = keys.length === 0
    ? { _tag: "Claimed", ended: [] }
    : yield* claim(journal, keys, wave.engine.principal, (ended) => giveBack(wave, records, ended))
  if (claimed._tag === "Busy") {
    const busy = new Set(claimed.keys)
    const calls = records.filter(({ record }) => busy.has(record.key)).map(({ call }) => call.call.id)
    return yield* Effect.fail({ reason: "Running" as const, calls })
  }
  records[0]?.record.takenOver()
  const entries = yield* Effect.tapError(
    keys.length === 0 ? Effect.succeed([]) : read(journal, { keys }),
    () => Effect.sync(() => giveBack(wave, records, claimed.ended))
  )
  return entries
})

/** Releases the calls that were taken over. */
const giveBack = (wave: WaveHost, records: ReadonlyArray<Record>, ended: ReadonlyArray<string>): void => {
  const over = new Set(ended)
  for (const { call, record } of records) {
    if (over.has(record.key)) continue
    wave.reporter.report({ _tag: "GivenBack", at: wave.now(), reason: "it could not be resumed" }, call, record)
  }
}

/** Takes over calls. A claim that succeeds after the timeout is given back. */
const claim = (
  journal: JournalWriter,
  keys: ReadonlyArray<string>,
  principal: string,
  late: (ended: ReadonlyArray<string>) => void
): Effect.Effect<Journal.Claimed, ResumeProblem> =>
  Effect.suspend(() => {
    let isLate = false
    const claiming = Effect.map(journal.driver.claim(keys, principal), (claimed) => {
      if (isLate && claimed._tag === "Claimed") late(claimed.ended)
      return claimed
    })
    return Effect.flatMap(Detached.within(Effect.uninterruptible(claiming), TimedPorts.timeoutMillis), (exit) => {
      if (exit?._tag === "Success") return Effect.succeed(exit.value)
      isLate = exit === undefined
      return Effect.fail(unavailable(exit === undefined ? "no answer in time" : exit.cause))
    })
  })

/** Gives a call its recorded outcome at its turn. The store may not have heard of its end. */
const recall = (
  wave: WaveHost,
  it: Record,
  life: RecordedLives.Life,
  { at, outcome, routes }: Journal.Of<"Settled">
): Effect.Effect<void> => {
  const { callId: _c, index: _i, queuedAt: _q, tool: _t, ...end } = outcome
  const { call } = it
  call.decided = end as unknown as End
  const endedAt = outcome._tag === "Unknown" ? outcome.startedAt : at
  call.memory = {
    _tag: "Ended",
    counted: outcome.startedAt === undefined ? undefined : countedOf(wave, it, life),
    unless: undefined,
    class: classOf(call, life),
    endedAt,
    routes
  }
  const reservation = life.started?.reservation
  if (reservation === undefined || call.gateCall === undefined) return Effect.void
  const settlement = CallClaims.settlement(wave, call, outcome, false, undefined)
  return wave.engine.store.recordedEnd(reservation, settlement, endedAt)
}

/** The class that a call had in its wave. Calls refused before anything ran block nobody. */
const classOf = ({ tool }: Call, { arrived, started }: RecordedLives.Life): Ended["class"] => {
  if (started === undefined && arrived?.isRefused === true) return "ShortCircuit"
  const known = arrived?.class ?? tool?.class
  return known === "ReadOnly" || known === "ConcurrentMut" || known === "SerialMut" ? known : "ShortCircuit"
}

/** Whether limits must count the start of a call again. Also notes whether this turn has counted it already. */
const countedOf = (
  { engine: { store }, origin, process }: WaveHost,
  { call, record: { key } }: Record,
  { isSpent, started }: RecordedLives.Life
): Counted | undefined => {
  if (started === undefined) return undefined
  const inTurn = started.session === store.session && started.process === process.id && started.wave < origin.wave
  call.counted = inTurn || process.recalled.has(key)
  process.recalled.add(key)
  return isSpent || !State.recounts(process, store, started) ? "spent" : "unknown"
}

/**
 * A recorded answer, if it still holds. An edited approval and one with data do not, since these are not on record; a standing
 * permission may have expired or been revoked.
 */
const answerOf = (
  [asked, { answer, by, grant, hasData, isEdited, note, person, reason }]: RecordedLives.Life["answered"][number],
  revoked: ReadonlySet<string>,
  now: number
): ReadonlyArray<Answered> => {
  const { shown, why } = asked
  const about = { shown, again: why === RecordedLives.mayHaveHappened }
  const said = person === undefined ? {} : { person }
  if (by === "timeout" || (by === "user" && answer === "Deny")) {
    return [{ ...about, resolution: { _tag: "Denied", by, ...(reason === undefined ? {} : { reason }), ...said } }]
  }
  const isOver = grant !== undefined && (revoked.has(grant.id) || (grant.expiresAt ?? Infinity) <= now)
  if (isOver || isEdited === true || hasData === true || (by !== "user" && by !== "grant")) return []
  const isOwn = by === "user"
  const noted = note === undefined ? {} : { note }
  return [{ ...about, resolution: { _tag: "Approved", grant: undefined, isOwn, edited: undefined, ...said, ...noted } }]
}

/** Grants revoked since they were given. Reads the journal only if there are any. */
const revokedOf = Effect.fnUntraced(function*(
  wave: WaveHost,
  journal: JournalWriter,
  lives: ReadonlyMap<string, RecordedLives.Life>
): Effect.fn.Return<ReadonlySet<string>> {
  const standing = Array.from(lives.values()).flatMap(({ answered, settled }) =>
    settled === undefined ? answered.flatMap(([, it]) => it.grant === undefined ? [] : [it.at]) : []
  )
  if (standing.length === 0) return new Set()
  const since = Math.min(...standing)
  const entries = yield* Effect.result(read(journal, { principal: wave.engine.principal, since }))
  // unknown: request approval again
  if (Result.isFailure(entries)) {
    return new Set(
      Array.from(lives.values()).flatMap(({ answered }) =>
        answered.flatMap(([, { grant }]) => grant === undefined ? [] : [grant.id])
      )
    )
  }
  return new Set(entries.success.flatMap((it) => it._tag === "Revoked" ? [it.grant] : []))
})

/** Continues a call from its record. */
const goOn = Effect.fnUntraced(function*(
  wave: WaveHost,
  it: Record,
  life: RecordedLives.Life,
  given: ReadonlyArray<Answered>,
  asks: boolean
): Effect.fn.Return<void> {
  const { call } = it
  const { asked, reviewed, started } = life
  const open = asked && {
    id: asked.requestId,
    requestedAt: asked.at,
    expiresAt: asked.expiresAt,
    shown: asked.shown,
    approvals: RecordedLives.approvalsOf(life, asked)
  }
  const answers = { given: given.length === 0 ? undefined : given, reviewed }
  if (started === undefined) {
    call.memory = { _tag: "Asked", answers: { ...answers, open } }
    return
  }
  const { at, attempt, idempotencyKey } = started
  const counted = countedOf(wave, it, life)!
  const unless = { _tag: "Unknown", startedAt: at, attempt } as unknown as End
  const again: Started = { _tag: "Started", counted, idempotencyKey, unless, why: undefined, answers }
  const ended: Ended = { _tag: "Ended", counted, unless, class: classOf(call, life), endedAt: at }
  if (call.tool?.readOnly === true) {
    call.memory = { ...again, unless: undefined }
    return
  }
  // while its tool is asked, the call can only end with what is known of it
  call.memory = again
  const found = yield* foundOut(wave, call, started)
  if (found._tag === "Repeatable") return
  if (found._tag === "DidNotHappen") call.memory = { ...again, unless: undefined }
  else if (found._tag === "Happened") call.memory = { ...ended, happened: { result: found.result, attempt } }
  else if (found._tag === "CannotTell" && asks) {
    const { mayHaveHappened: why } = RecordedLives
    // the open request may have been about what the call would write
    call.memory = { ...again, why, answers: { ...answers, open: asked?.why === why ? open : undefined } }
  } else {
    call.decided = unless
    call.memory = ended
  }
})

/** What became of a call that started; `Unknown`: nobody can tell, and nobody is asked. */
const foundOut = Effect.fnUntraced(function*(
  wave: WaveHost,
  call: Call,
  started: Journal.Of<"Started">
): Effect.fn.Return<Reconciled<unknown> | { readonly _tag: "Repeatable" | "Unknown" }> {
  const { decided, tool } = call
  if (decided !== undefined || tool === undefined) return { _tag: "Unknown" }
  if (yield* said(wave, call, started, "continues", asContinued, false)) return { _tag: "Repeatable" }
  if (started.isEdited === true) return { _tag: "Unknown" }
  if (tool.idempotent) return { _tag: "Repeatable" }
  return yield* said(wave, call, started, "reconcile", asReconciled, cannotTell)
})

/** Asks the tool itself what became of a call; `otherwise` if it does not say. */
const said = <A>(
  wave: WaveHost,
  call: Call,
  started: Journal.Of<"Started">,
  of: "reconcile" | "continues",
  read: (answer: unknown) => A | undefined,
  otherwise: A
): Effect.Effect<A> => {
  const tool = call.tool!
  const ask = tool[of]
  if (ask === undefined) return Effect.succeed(otherwise)
  const question = () => Effect.orDie<unknown, unknown, never>(ask(call.gateCall!.params, earlier(wave, call, started)))
  return Effect.map(ToolAnswers.lookUp<unknown, A>(wave, tool, question, read), (it) => it ?? otherwise)
}

const earlier = (
  { process }: WaveHost,
  { call: { id: callId } }: Call,
  { at: startedAt, idempotencyKey }: Journal.Of<"Started">
): Earlier => ({ idempotencyKey, startedAt, callId, process: process.id })

const asContinued = (answer: unknown): boolean => answer === true

const cannotTell: Reconciled<unknown> = { _tag: "CannotTell" }

const asReconciled = (answer: unknown): Reconciled<unknown> | undefined => {
  const { _tag } = answer as Reconciled<unknown>
  return _tag === "Happened" || _tag === "DidNotHappen" ? answer as Reconciled<unknown> : undefined
}

/** The ids of calls that are open with other arguments: it is unclear which of the two is meant. */
const others = Effect.fnUntraced(function*(
  wave: WaveHost,
  journal: JournalWriter,
  records: ReadonlyArray<Record>,
  keys: ReadonlySet<string>
): Effect.fn.Return<ReadonlyArray<string>, ResumeProblem> {
  const { batch } = wave.origin
  const open = new Map<string, string>()
  for (const entry of yield* read(journal, { principal: wave.engine.principal, batch, isOpen: true })) {
    if (!EarlierWaves.isOwn(wave, entry) || keys.has(entry.key)) continue
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
  Effect.map(
    TimedPorts.inTime(Stream.runCollect(journal.driver.read(query)), unavailable),
    (all) => all.map((it) => it.entry)
  )

const unavailable = (cause: unknown): ResumeProblem => ({ reason: "Unavailable", calls: [], cause })
