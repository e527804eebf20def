/**
 * What goes on record of the calls of a wave. Where there is no journal none of it is
 * made; where there is one, entries are made when it writes or reads them.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as Redact from "../internal/redact.ts"
import type { ApprovalRequest } from "../policy/ApprovalRequest.ts"
import type { Resolution } from "../policy/Approvals.ts"
import type { GateCall } from "../policy/Gate.ts"
import type { Reservation } from "../store/Claims.ts"
import type { Grant } from "../store/Grant.ts"
import type * as Journal from "../store/Journal.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import * as ToolRefusal from "../ToolRefusal.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import * as Revisions from "./Revisions.ts"
import * as WithoutSecrets from "./WithoutSecrets.ts"

/** What is secret of a call without a tool: what has a usual name. */
const plain = Redact.make({ declared: [], parameters: Schema.Unknown.ast, results: [] })

/** The entry of a kind without what all entries of one call have in common. */
type Body = Journal.CallEntry extends infer E
  ? E extends Journal.CallEntry ? Omit<E, Exclude<keyof Journal.Of<"OrphanEnded">, "_tag">> : never
  : never

/**
 * The wave of a call, as far as its record needs it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Wave extends IdempotencyKey.Place {
  readonly process: { readonly id: string; readonly isNamed: boolean }
  readonly begunAt: number
  now(): number
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
}

/**
 * What goes on record of one call.
 *
 * @category models
 * @since 0.1.0
 */
export class CallRecord {
  private readonly writer: JournalWriter
  private readonly wave: Wave
  private readonly index: number
  private readonly id: string
  private readonly name: string
  /** As it arrived: a person may edit its arguments later. */
  private readonly gateCall: GateCall | undefined
  private readonly params: unknown
  private readonly tool: RegisteredTool | undefined
  /** Which of the calls of its wave that have its id. */
  private readonly occurrence: number
  private known: string | undefined
  private found: Redact.Found | undefined
  /** The arguments that a person has put in the place of these. */
  private edited: unknown
  /** Nobody waits for a person's answer any more, who may give it yet: the call may be resumed. */
  isSuspended = false

  constructor(writer: JournalWriter, wave: Wave, call: Call, occurrence: number) {
    this.occurrence = occurrence
    this.writer = writer
    this.wave = wave
    this.index = call.index
    this.id = call.call.id
    this.name = call.call.name
    this.gateCall = call.gateCall
    this.tool = call.tool
    this.params = call.call.malformed?.text ?? call.call.params
  }

  /** Knows the call again when it is handed over a second time. */
  get key(): string {
    return this.known ??= this.writer.driver.digest(this.identity)
  }

  private get identity(): string {
    const { engine, events: { origin }, process } = this.wave
    return JSON.stringify([
      engine.principal,
      origin.agentPath,
      origin.batch,
      process.isNamed ? process.id : "",
      this.id,
      this.name,
      this.canonical,
      this.occurrence
    ])
  }

  private get canonical(): string {
    const { gateCall, params } = this
    if (gateCall !== undefined) return gateCall.tool.canonical(gateCall.params, gateCall.args)
    try {
      return canonicalJson(params)
    } catch {
      return ""
    }
  }

  /** It was handed over, and what it is about is known. */
  arrived(isResumed: boolean): void {
    const { gateCall } = this
    const tool = gateCall?.tool
    this.note(this.wave.begunAt, () => ({
      _tag: "Arrived",
      args: this.keptArguments,
      ...(tool === undefined ? {} : { class: tool.class, revision: Revisions.of(tool) }),
      ...(gateCall?.targets === undefined ? {} : { targets: gateCall.targets.map(({ text }) => this.scrub(text)) }),
      ...(isResumed ? { isResumed } : {})
    }))
  }

  asked({ args, expiresAt, id, preview, tool, why }: ApprovalRequest): void {
    this.note(this.wave.now(), () => ({
      _tag: "Asked",
      requestId: id,
      why: this.scrub(why),
      expiresAt,
      shown: this.writer.driver.digest(JSON.stringify([tool, args, preview])),
      ...(preview?._tag === "Diff" && this.writer.driver.keeps.arguments === "full"
        ? { preview: this.scrub(preview.diff) }
        : {})
    }))
  }

  answered(requestId: string, resolution: Resolution | undefined): void {
    if (resolution?._tag === "Suspended") this.isSuspended = true
    this.note(this.wave.now(), () => ({ _tag: "Answered", requestId, ...answerOf(resolution, this.scrub) }))
  }

  granted(grant: Grant): void {
    const { wave: { engine: { principal } }, writer: { session } } = this
    this.writer.note(() => ({ _tag: "Granted", at: grant.grantedAt, principal, session, grant: this.grant(grant) }))
  }

  /** It is about to start; what may change things is written before it does. */
  started(call: Call, attempt: number, limitMillis: number): () => Journal.JournalEntry {
    const at = this.wave.now()
    const idempotencyKey = IdempotencyKey.of(this.wave, call)
    const { grant, reservation, tool } = call
    const allowedBy = grant?.id ?? (call.approved === true ? "answer" : "policy")
    const isEdited = call.gateCall !== undefined && this.gateCall !== undefined &&
      call.gateCall.args !== this.gateCall.args
    if (isEdited) this.edited = call.gateCall.args
    return () =>
      this.entry(at, {
        _tag: "Started",
        attempt,
        limitMillis,
        idempotencyKey,
        mutates: !tool!.readOnly,
        allowedBy,
        isSpent: reservation?.leaseMillis !== undefined,
        ...(isEdited ? { isEdited } : {})
      })
  }

  /** The same of a start that nobody waits for. */
  noteStart(call: Call, attempt: number, limitMillis: number): void {
    this.writer.note(this.started(call, attempt, limitMillis))
  }

  committed(commits: number): void {
    this.note(this.wave.now(), () => ({ _tag: "Committed", commits }))
  }

  settled(outcome: ToolOutcome, at: number): void {
    if (outcome._tag === "Denied") {
      this.note(at, () => ({
        _tag: "Decided",
        verdict: "refused",
        gate: ToolRefusal.gateOf(outcome.reason),
        sentence: this.scrub(ToolRefusal.describe(outcome.reason, outcome.tool))
      }))
    }
    this.note(at, () => ({ _tag: "Settled", ...this.keptOutcome(outcome) }))
  }

  suspended(reason: string): void {
    this.note(this.wave.now(), () => ({ _tag: "Suspended", reason: this.scrub(reason) }))
  }

  lateWriteBlocked(): void {
    this.note(this.wave.now(), () => ({ _tag: "LateWriteBlocked" }))
  }

  orphanEnded(): void {
    this.note(this.wave.now(), () => ({ _tag: "OrphanEnded" }))
  }

  /** Notes something of the call. */
  note(at: number, body: () => Body): void {
    this.writer.note(() => this.entry(at, body()))
  }

  private entry(at: number, body: Body): Journal.JournalEntry {
    const { engine: { principal }, events: { origin } } = this.wave
    const { agentPath, batch, process, wave } = origin
    const { id: callId, index, key, name: tool, writer: { session } } = this
    return { at, principal, session, agentPath, batch, process, wave, index, callId, tool, key, ...body }
  }

  private get keptArguments(): Journal.KeptArguments {
    const { digest, keeps } = this.writer.driver
    // nobody knows what is secret for a tool that there is not
    switch (this.tool === undefined && keeps.arguments === "full" ? "hashes" : keeps.arguments) {
      case "full":
        return { _tag: "Full", value: this.hidden.value }
      case "hashes":
        return { _tag: "Hash", hash: digest(this.canonical) }
      case "none":
        return { _tag: "None" }
    }
  }

  private keptOutcome(outcome: ToolOutcome): Omit<Journal.Of<"Settled">, keyof Journal.Of<"OrphanEnded">> {
    const left = WithoutSecrets.outcome(outcome, this.redactor, this.secrets)
    if (left._tag !== "Succeeded") return { outcome: left }
    const granted = left.grant === undefined ? left : { ...left, grant: this.grant(left.grant) }
    const { digest, keeps } = this.writer.driver
    const isWhole = left === outcome
    if (keeps.outputs === "full" || left.output._tag === "Artifact") {
      return { outcome: granted, ...(isWhole ? {} : { isIncomplete: true }) }
    }
    const hash = keeps.outputs === "hashes"
      ? { outputHash: digest((outcome as typeof left).output.modelText) }
      : {}
    return { outcome: { ...granted, output: { _tag: "Inline", modelText: notKept } }, isIncomplete: true, ...hash }
  }

  private grant(grant: Grant): Grant {
    return grant.targets === undefined ? grant : { ...grant, targets: grant.targets.map(this.scrub) }
  }

  private get redactor(): Redact.Redactor {
    return this.tool?.redactor ?? plain
  }

  /** Its arguments without what is secret in them. */
  private get hidden(): Redact.Found {
    return this.found ??= this.redactor.arguments(this.gateCall?.args ?? this.params)
  }

  private get secrets(): ReadonlyArray<string> {
    const { secrets } = this.hidden
    return this.edited === undefined ? secrets : [...secrets, ...this.redactor.arguments(this.edited).secrets]
  }

  private readonly scrub = (text: string): string => this.redactor.scrub(text, this.secrets)
}

// Utilities

const notKept = "It succeeded. Its output was not kept."

const answerOf = (
  resolution: Resolution | undefined,
  scrub: (text: string) => string
): { readonly answer: string; readonly by: Journal.Of<"Answered">["by"]; readonly reason?: string } => {
  if (resolution === undefined) return { answer: "withdrawn", by: "withdrawn" }
  switch (resolution._tag) {
    case "Approved":
      return { answer: resolution.grant?.answer ?? "ApproveOnce", by: resolution.isOwn ? "user" : "grant" }
    case "Suspended":
      return { answer: "suspended", by: "suspended", reason: scrub(resolution.reason) }
    case "Denied": {
      const { by, reason } = resolution
      return { answer: by === "user" ? "Deny" : by, by, ...(reason === undefined ? {} : { reason: scrub(reason) }) }
    }
  }
}
