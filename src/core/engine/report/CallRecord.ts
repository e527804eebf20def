/**
 * What goes on record of the calls of a wave. Where there is no journal none of it is
 * made; where there is one, a line is noted as things happen, and its entry made when
 * a driver writes or somebody reads it.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { canonicalJson } from "../../../internal/canonicalJson.ts"
import * as Redact from "../../../internal/secrets/index.ts"
import type { ApprovalRequest, Question, Resolution } from "../../gates/ApprovalRequest.ts"
import type { GateCall } from "../../gates/Gate.ts"
import type { Reservation } from "../../store/Claims.ts"
import type * as Journal from "../../store/Journal.ts"
import type { Grant } from "../../vocabulary/Grant.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import * as ToolRefusal from "../../vocabulary/ToolRefusal.ts"
import * as IdempotencyKey from "../IdempotencyKey.ts"
import type { Received } from "../Received.ts"
import * as Revisions from "../Revisions.ts"
import type { CallTrace } from "./CallTrace.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import * as WithoutSecrets from "./WithoutSecrets.ts"

/**
 * What the records of a wave's calls have in common.
 *
 * @category models
 * @since 0.1.0
 */
export interface RecordedWave extends IdempotencyKey.Place {
  readonly writer: JournalWriter
  /** Name of the process, if the host has given it one. */
  readonly named: string | undefined
  readonly begunAt: number
  /** The term that its calls are this process's in; absent: nobody can take them over. */
  readonly term: Journal.Term | undefined
  /** What the keys of all its calls begin with, so that a database has them side by side. */
  readonly near: string
  readonly now: () => number
}

/**
 * The call, as far as its record needs it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Call extends IdempotencyKey.Keyed {
  readonly reservation: Reservation | undefined
  readonly grant?: Grant | undefined
  readonly approved?: true
  readonly trace?: CallTrace
  /** How it ends, where that is known. */
  readonly decided: unknown
}

type Routes = Journal.Of<"Settled">["routes"] | undefined

/**
 * What goes on record of one call.
 *
 * @category models
 * @since 0.1.0
 */
export class CallRecord {
  private readonly wave: RecordedWave
  private readonly index: number
  private readonly call: Received
  /** As it arrived: a person may edit its arguments later. */
  private readonly gateCall: GateCall | undefined
  private readonly tool: RegisteredTool | undefined
  private readonly trace: CallTrace | undefined
  /** It was refused before anything ran. */
  readonly isRefused: boolean
  /** Which of the calls of its wave that are like it; set before its key is asked for. */
  occurrence = 0
  /** The arguments that a person has put in the place of these. */
  private edited: unknown = undefined
  private isResumed = false
  private known: string | undefined = undefined
  private found: Redact.Found | undefined = undefined

  constructor(wave: RecordedWave, { call, decided, gateCall, index, tool, trace }: Call) {
    this.wave = wave
    this.index = index
    this.call = call
    this.gateCall = gateCall
    this.tool = tool
    this.trace = trace
    this.isRefused = decided !== undefined
  }

  /** Knows the call again when it is handed over a second time. */
  get key(): string {
    return this.known ??= this.wave.near + this.digest(this.identity)
  }

  /** What it is known by. */
  get identity(): string {
    const { engine: { principal }, events: { origin: { agentPath, batch } }, named = "" } = this.wave
    const { id, name } = this.call
    return JSON.stringify([principal, agentPath, batch, named, id, name, this.written, this.occurrence])
  }

  /** It was handed over, and what it is about is known. */
  arrived(isResumed: boolean): void {
    this.isResumed = isResumed
    this.note(this.wave.begunAt, arrived, isResumed)
  }

  /** A person is about to be asked; tells whether that is on record. */
  asked(request: ApprovalRequest): Effect.Effect<boolean> {
    this.note(this.wave.now(), asked, request)
    return this.wave.writer.flush
  }

  answered(requestId: string, resolution: Resolution | undefined): void {
    this.note(this.wave.now(), answered, { requestId, resolution })
  }

  granted(grant: Grant): void {
    const { engine: { principal }, writer } = this.wave
    const { session } = writer
    writer.note({ entry: { _tag: "Granted", at: grant.grantedAt, principal, session, grant: this.grant(grant) } })
  }

  /** It is about to start, which nobody waits for. */
  noteStart(call: Call, attempt: number, limitMillis: number): void {
    this.wave.writer.note(this.started(call, attempt, limitMillis))
  }

  /** The line of its start: what may change things is written before it does. */
  started(
    { approved, gateCall, grant, reservation, resumed }: Call,
    attempt: number,
    limitMillis: number
  ): Journal.Line {
    const isEdited = gateCall?.args !== this.gateCall?.args
    if (isEdited) this.edited = gateCall?.args
    return new RecordLine(this, this.wave.now(), started, {
      attempt,
      limitMillis,
      gateCall,
      resumed,
      allowedBy: grant?.id ?? (approved === true ? "answer" : "policy"),
      reservation: reservation?.leaseMillis === undefined ? undefined : reservation,
      isEdited
    })
  }

  committed(commits: number): void {
    this.note(this.wave.now(), committed, commits)
  }

  /** `routes` is where its output leads, where rules say so. */
  settled(outcome: ToolOutcome, at: number, routes: Routes): void {
    if (outcome._tag === "Denied") this.note(at, decided, outcome.reason)
    if (routes === undefined) this.note(at, settled, outcome)
    else this.note(at, settledWith, { outcome, routes })
  }

  suspended(reason: string): void {
    this.note(this.wave.now(), suspended, reason)
  }

  lateWriteBlocked(): void {
    this.note(this.wave.now(), plainly, "LateWriteBlocked")
  }

  orphanEnded(): void {
    this.note(this.wave.now(), plainly, "OrphanEnded")
  }

  /** Where its span is found, if it has one. */
  get span(): Journal.Of<"Arrived">["span"] {
    return this.trace?.place
  }

  private note<A>(at: number, body: (record: CallRecord, data: A) => Body, data: A): void {
    this.wave.writer.note(new RecordLine(this, at, body, data))
  }

  /** The entry of something that happened to the call. */
  entry(at: number, body: Body): Journal.JournalEntry {
    const { call: { id: callId, name: tool }, index, key, wave: { engine, events: { origin }, writer } } = this
    const { principal } = engine
    const { agentPath, batch, process, wave } = origin
    const { session } = writer
    return { at, principal, session, agentPath, batch, process, wave, index, callId, tool, key, ...body }
  }

  /** What is known of it as it arrived. */
  get arrival(): Omit<Journal.Of<"Arrived">, keyof Journal.Of<"OrphanEnded">> {
    const { gateCall } = this
    const args = this.keptArguments
    if (gateCall === undefined) return { args }
    const { targets, tool } = gateCall
    const about = targets === undefined ? {} : { targets: targets.map(({ text }) => this.scrub(text)) }
    return { args, class: tool.class, revision: Revisions.of(tool), ...about }
  }

  /** Its key for others, with the arguments that it has by now. */
  idempotencyKey(gateCall: GateCall | undefined, resumed: IdempotencyKey.Keyed["resumed"]): string {
    const { call, index, tool } = this
    return IdempotencyKey.of(this.wave, { call, index, tool, gateCall, ...(resumed === undefined ? {} : { resumed }) })
  }

  get name(): string {
    return this.call.name
  }

  get term(): Journal.Term | undefined {
    return this.wave.term
  }

  /** It may change things, and another process may have taken it over: it is on record, and its lease has expired. */
  get isAtRisk(): boolean {
    const { begunAt, term, writer } = this.wave
    return term !== undefined && !term.isHeld && this.mutates && (this.isResumed || writer.writtenAt >= begunAt)
  }

  get mutates(): boolean {
    return this.tool?.readOnly !== true
  }

  get keeps(): Journal.Keeps {
    return this.wave.writer.driver.keeps
  }

  digest(text: string): string {
    return this.wave.writer.driver.digest(text)
  }

  private get canonical(): string {
    const { gateCall } = this
    return gateCall === undefined ? this.written : gateCall.tool.canonical(gateCall.params, gateCall.args)
  }

  /** Its arguments as they were handed over: neither its tool nor a host's own arguments, which may change, are in it. */
  private get written(): string {
    const { malformed, params } = this.call
    try {
      return canonicalJson(malformed?.text ?? params)
    } catch {
      return ""
    }
  }

  private get keptArguments(): Journal.KeptArguments {
    // nobody knows what is secret for a tool that there is not
    switch (this.tool === undefined && this.keeps.arguments === "full" ? "hashes" : this.keeps.arguments) {
      case "full":
        return { _tag: "Full", value: this.hidden.value }
      case "hashes":
        return { _tag: "Hash", hash: this.digest(this.canonical) }
      case "none":
        return { _tag: "None" }
    }
  }

  outcome(outcome: ToolOutcome): Omit<Journal.Of<"Settled">, keyof Journal.Of<"OrphanEnded">> {
    const left = WithoutSecrets.outcome(outcome, this.redactor, this.secrets)
    if (left._tag !== "Succeeded") return { outcome: left }
    const granted = left.grant === undefined ? left : { ...left, grant: this.grant(left.grant) }
    const isWhole = left === outcome
    if (this.keeps.outputs === "full" || left.output._tag === "Artifact") {
      return { outcome: granted, ...(isWhole ? {} : { isIncomplete: true }) }
    }
    const hash = this.keeps.outputs === "hashes"
      ? { outputHash: this.digest((outcome as typeof left).output.modelText) }
      : {}
    return { outcome: { ...granted, output: { _tag: "Inline", modelText: notKept } }, isIncomplete: true, ...hash }
  }

  private grant(grant: Grant): Grant {
    return grant.targets === undefined ? grant : { ...grant, targets: grant.targets.map((it) => this.scrub(it)) }
  }

  private get redactor(): Redact.Redactor {
    return this.tool?.redactor ?? Redact.usual
  }

  /** Its arguments without what is secret in them. */
  private get hidden(): Redact.Found {
    const { call: { malformed, params }, gateCall } = this
    return this.found ??= this.redactor.arguments(gateCall?.args ?? malformed?.text ?? params)
  }

  private get secrets(): ReadonlyArray<string> {
    const { secrets } = this.hidden
    return this.edited === undefined ? secrets : [...secrets, ...this.redactor.arguments(this.edited).secrets]
  }

  /** Knows again what a person was shown. */
  shown({ args, preview, revision, targets, tool }: Question): string {
    return this.digest(JSON.stringify([tool, revision, args, targets.map(({ text }) => text), preview]))
  }

  /** A text without the secrets of the call. */
  scrub(text: string): string {
    return this.redactor.scrub(text, this.secrets)
  }
}

// Utilities

/** A line whose entry is made when it is first asked for: one object for each, since there are several per call. */
class RecordLine<A> implements Journal.Line {
  private readonly record: CallRecord
  private readonly at: number
  private readonly body: (record: CallRecord, data: A) => Body
  private readonly data: A
  readonly term: Journal.Term | undefined
  private made: Journal.JournalEntry | undefined = undefined

  constructor(record: CallRecord, at: number, body: (record: CallRecord, data: A) => Body, data: A) {
    this.record = record
    this.at = at
    this.body = body
    this.data = data
    this.term = record.term
  }

  get entry(): Journal.JournalEntry {
    return this.made ??= this.record.entry(this.at, this.body(this.record, this.data))
  }
}

/** The entry of a kind without what all entries of one call have in common. */
type Body = Journal.CallEntry extends infer E
  ? E extends Journal.CallEntry ? Omit<E, Exclude<keyof Journal.Of<"OrphanEnded">, "_tag">> : never
  : never

const arrived = (record: CallRecord, isResumed: boolean): Body => ({
  _tag: "Arrived",
  ...record.arrival,
  ...(record.isRefused ? { isRefused: true } : {}),
  ...(isResumed ? { isResumed } : {}),
  ...(record.span === undefined ? {} : { span: record.span })
})

const decided = (record: CallRecord, reason: ToolRefusal.ToolRefusal): Body => ({
  _tag: "Decided",
  verdict: "refused",
  gate: ToolRefusal.gateOf(reason),
  sentence: record.scrub(ToolRefusal.describe(reason, record.name))
})

const asked = (record: CallRecord, request: ApprovalRequest): Body => {
  const { expiresAt, id, preview, why } = request
  const diff = preview?._tag === "Diff" && record.keeps.arguments === "full"
    ? { preview: record.scrub(preview.diff) }
    : {}
  return { _tag: "Asked", requestId: id, why: record.scrub(why), expiresAt, shown: record.shown(request), ...diff }
}

const answered = (
  record: CallRecord,
  { requestId, resolution }: { readonly requestId: string; readonly resolution: Resolution | undefined }
): Body => {
  const person = resolution === undefined || resolution._tag === "Suspended" ? undefined : resolution.person
  const about = { _tag: "Answered" as const, requestId, ...(person === undefined ? {} : { person }) }
  if (resolution === undefined) return { ...about, answer: "withdrawn", by: "withdrawn" }
  switch (resolution._tag) {
    case "Approved": {
      const { edited, grant, isOwn } = resolution
      const standing = grant === undefined ? {} : {
        grant: { id: grant.id, ...(grant.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }) }
      }
      return {
        ...about,
        answer: grant?.answer ?? "ApproveOnce",
        by: isOwn ? "user" : "grant",
        ...standing,
        ...(edited === undefined ? {} : { isEdited: true })
      }
    }
    case "Suspended":
      return { ...about, answer: "suspended", by: "suspended", reason: record.scrub(resolution.reason) }
    case "Denied": {
      const { by, reason } = resolution
      const said = reason === undefined ? {} : { reason: record.scrub(reason) }
      return { ...about, answer: by === "user" ? "Deny" : by, by, ...said }
    }
  }
}

/** What a start is to be known by later, when the call itself is over. */
interface Start extends Pick<Journal.Of<"Started">, "attempt" | "allowedBy"> {
  readonly limitMillis: number
  readonly reservation: Reservation | undefined
  readonly gateCall: GateCall | undefined
  readonly resumed: IdempotencyKey.Keyed["resumed"] | undefined
  readonly isEdited: boolean
}

const started = (record: CallRecord, it: Start): Body => {
  const { allowedBy, attempt, gateCall, isEdited, limitMillis, reservation, resumed } = it
  return {
    _tag: "Started",
    attempt,
    // JSON has no word for it
    limitMillis: limitMillis === Infinity ? "unlimited" : limitMillis,
    idempotencyKey: record.idempotencyKey(gateCall, resumed),
    mutates: record.mutates,
    allowedBy,
    ...(isEdited ? { isEdited } : {}),
    ...(reservation === undefined ? {} : { reservation: { id: reservation.id, epoch: reservation.epoch } })
  }
}

const committed = (_: CallRecord, commits: number): Body => ({ _tag: "Committed", commits })

const settled = (record: CallRecord, outcome: ToolOutcome): Body => ({ _tag: "Settled", ...record.outcome(outcome) })

const settledWith = (
  record: CallRecord,
  { outcome, routes }: { readonly outcome: ToolOutcome; readonly routes: Exclude<Routes, undefined> }
): Body => ({ _tag: "Settled", ...record.outcome(outcome), routes })

const suspended = (record: CallRecord, reason: string): Body => ({ _tag: "Suspended", reason: record.scrub(reason) })

const plainly = (_: CallRecord, tag: "LateWriteBlocked" | "OrphanEnded"): Body => ({ _tag: tag })

const notKept = "It succeeded. Its output was not kept."
