/**
 * Turns facts into journal entries.
 *
 * Only the kind of entry is determined immediately. The entry is made and redacted when a driver writes it or it is
 * first read.
 */
import { mapTexts } from "../../facts/EvidenceText.ts"
import type { CallFact, Of, SpanId } from "../../facts/Fact.ts"
import type * as Journal from "../../store/Journal.ts"
import type { Grant } from "../../vocabulary/Grant.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import * as ToolRefusal from "../../vocabulary/ToolRefusal.ts"

/** An entry without the fields that all entries of one call share. */
export type Body = Journal.CallEntry extends infer E
  ? E extends Journal.CallEntry ? Omit<E, Exclude<keyof Journal.Of<"OrphanEnded">, "_tag">> : never
  : never

/** The call that entries are about: its identity and its secrets. */
export interface Subject {
  readonly name: string
  /** It was refused before anything ran. */
  readonly isRefused: boolean
  readonly span: SpanId | undefined
  readonly keeps: Journal.Keeps
  readonly arrival: Omit<Journal.Of<"Arrived">, keyof Journal.Of<"OrphanEnded">>
  readonly common: (at: number) => Pick<Journal.Of<"Granted">, "at" | "principal" | "session">
  readonly entry: (at: number, body: Body) => Journal.JournalEntry
  readonly grant: (grant: Grant) => Grant
  readonly idempotencyKey: (input: Of<"Started">["input"], known: string | undefined) => string
  readonly isEdited: (args: unknown) => boolean
  readonly outcome: (outcome: ToolOutcome) => Omit<Journal.Of<"Settled">, keyof Journal.Of<"OrphanEnded">>
  readonly scrub: (text: string) => string
  readonly shown: (request: Of<"Reviewed">["request"]) => string
}

export type Make<F extends CallFact> = (record: Subject, fact: F) => Journal.JournalEntry

/** Gives the function that makes the entry of a fact, if the fact has one. */
export const of = (fact: CallFact): Make<never> | undefined =>
  (folds[fact._tag] as (fact: CallFact) => Make<never> | undefined)(fact)

const none = (): undefined => undefined

/** An entry with the time of the fact and the identity of the call. */
const entry = <F extends CallFact>(body: (fact: F, record: Subject) => Body) => {
  const make: Make<F> = (record, fact) => record.entry(fact.at, body(fact, record))
  return (): Make<F> => make
}

const started = entry<Of<"Starting" | "Started">>((fact, record) => {
  const { allowedBy, attempt, input, limitMillis, mutates, reservation, sandbox } = fact
  return {
    _tag: "Started",
    attempt,
    // JSON has no Infinity
    limitMillis: limitMillis === Infinity ? "unlimited" : limitMillis,
    idempotencyKey: record.idempotencyKey(input, fact.idempotencyKey),
    mutates,
    allowedBy,
    ...(sandbox === undefined ? {} : { sandbox }),
    ...(record.isEdited(input.args) ? { isEdited: true } : {}),
    ...(reservation === undefined ? {} : { reservation: { id: reservation.id, epoch: reservation.epoch } })
  }
})

const suspended = entry<Of<"Suspended" | "GivenBack">>((fact, record) => ({
  _tag: "Suspended",
  reason: record.scrub(fact.reason),
  ...("isStarted" in fact && fact.isStarted ? { isStarted: true } : {})
}))

const shadowed = entry<Of<"Shadowed">>(({ because, decided, policy, would }, record) => ({
  _tag: "Shadowed",
  policy,
  would,
  decided,
  ...(because === undefined ? {} : { because: record.scrub(because) })
}))

const answered = entry<Of<"Answered">>((
  { answer, by, grant, hasData, isEdited, note, person, reason, requestId },
  record
) => ({
  _tag: "Answered",
  requestId,
  answer,
  by,
  ...(person === undefined ? {} : { person }),
  ...(reason === undefined ? {} : { reason: record.scrub(reason) }),
  ...(grant === undefined ? {} : { grant }),
  ...(isEdited === undefined ? {} : { isEdited }),
  ...(note === undefined ? {} : { note: record.scrub(note) }),
  ...(hasData === undefined ? {} : { hasData })
}))

const granted: Make<Of<"Granted">> = (record, { at, grant }) => ({
  _tag: "Granted",
  ...record.common(at),
  grant: record.grant(grant)
})

const folds: { readonly [T in CallFact["_tag"]]: (fact: Of<T>) => Make<Of<T>> | undefined } = {
  Queued: none,
  Resumed: none,
  Arrived: entry(({ isResumed }, record) => ({
    _tag: "Arrived",
    ...record.arrival,
    ...(record.isRefused ? { isRefused: true } : {}),
    ...(isResumed ? { isResumed } : {}),
    ...(record.span === undefined ? {} : { span: record.span })
  })),
  Decided: entry(({ reason }, record) => ({
    _tag: "Decided",
    verdict: "refused",
    gate: ToolRefusal.gateOf(reason),
    sentence: record.scrub(ToolRefusal.describe(reason, record.name))
  })),
  Shadowed: (fact) => fact.would === fact.decided ? undefined : shadowed(),
  Reviewed: entry(({ decides, millis, model, problem, reason, request, verdict }, record) => ({
    _tag: "Reviewed",
    verdict,
    reason: record.scrub(reason),
    model,
    millis,
    ...(decides ? { decides } : {}),
    ...(problem === undefined ? {} : { problem }),
    why: record.scrub(request.why),
    shown: record.shown(request)
  })),
  Asked: entry(({ request }, record) => {
    const { approvers, evidence, expiresAt, id, isAlways, preview, why } = request
    const diff = preview?._tag === "Diff" && record.keeps.arguments === "full"
      ? { preview: record.scrub(preview.diff) }
      : {}
    return {
      _tag: "Asked",
      requestId: id,
      why: record.scrub(why),
      expiresAt,
      shown: record.shown(request),
      ...diff,
      ...(evidence === undefined ? {} : { evidence: evidence.map((it) => mapTexts(it, (text) => record.scrub(text))) }),
      ...(isAlways === true ? { isAlways } : {}),
      ...(approvers === undefined ? {} : { approvers })
    }
  }),
  Withdrawn: entry(({ requestId }) => ({
    _tag: "Answered",
    requestId,
    answer: "withdrawn",
    by: "withdrawn"
  })),
  Presented: none,
  ApprovedBy: entry(({ approval: { data, note, ...approval }, requestId }, record) => ({
    _tag: "ApprovedBy",
    requestId,
    approval: { ...approval, ...(note === undefined ? {} : { note: record.scrub(note) }) },
    ...(data === undefined ? {} : { hasData: true })
  })),
  // the request of a suspended call stays open, and the call has an entry that says so
  Answered: ({ by }) => by === "suspended" ? undefined : answered(),
  Granted: () => granted,
  Starting: started,
  // a call that may change things is on record before it starts
  Started: ({ attempt, mutates }) => mutates && attempt === 1 ? undefined : started(),
  AttemptFailed: none,
  Recalled: none,
  Reported: none,
  Committed: entry(({ commits }) => ({ _tag: "Committed", commits })),
  LateWriteBlocked: entry(() => ({ _tag: "LateWriteBlocked" })),
  Settled: entry(({ outcome, routes, unseen }, record) => ({
    _tag: "Settled",
    ...record.outcome(outcome),
    ...(unseen === undefined ? {} : { unseen: record.scrub(unseen) }),
    ...(routes === undefined ? {} : { routes })
  })),
  Suspended: suspended,
  GivenBack: suspended,
  Concluded: none,
  Orphaned: none,
  OrphanEnded: entry(() => ({ _tag: "OrphanEnded" }))
}
