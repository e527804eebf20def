/** The journal record of one call: its identity, its arguments on arrival, and which parts are secret. */
import { canonicalJson } from "../../../internal/canonicalJson.ts"
import * as Redact from "../../../internal/secrets/index.ts"
import type { CallFact, Of, Origin, Request, SpanId } from "../../facts/Fact.ts"
import type { GateCall } from "../../gates/Gate.ts"
import type * as Journal from "../../store/Journal.ts"
import type { Grant } from "../../vocabulary/Grant.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import * as IdempotencyKey from "../data/IdempotencyKey.ts"
import type { Received } from "../data/Received.ts"
import * as Revisions from "../data/Revisions.ts"
import type { CallTrace } from "./CallTrace.ts"
import * as JournalFold from "./JournalFold.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import * as WithoutSecrets from "./WithoutSecrets.ts"

/** What the records of a wave's calls have in common. It must not hold the wave, which ends long before its records. */
export interface RecordedWave {
  readonly principal: string
  readonly origin: Origin
  readonly writer: JournalWriter
  /** Name of the process, if the host gave it one. */
  readonly named: string | undefined
  readonly begunAt: number
  /** The term in which its calls belong to this process; absent if no other process can take them over. */
  term: Journal.Term | undefined
  /** Common prefix of the keys of all its calls, so that a database stores them together. */
  readonly near: string
  /** The conversation of its calls, where it matters. */
  readonly conversation: string | undefined
  /** Numbers its calls in their conversation, where it matters. */
  readonly numbered: (() => number) | undefined
}

/** A call as its record sees it. */
export interface Recordable {
  readonly index: number
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  readonly gateCall: GateCall | undefined
  readonly trace: CallTrace | undefined
  /** Its end, if it is known. */
  readonly decided: unknown
}

export class CallRecord implements JournalFold.Subject {
  private readonly wave: RecordedWave
  private readonly index: number
  private readonly call: Received
  /** As it arrived: approvers may edit its arguments later. */
  private readonly gateCall: GateCall | undefined
  private readonly tool: RegisteredTool | undefined
  /** Its span, if it is traced. */
  readonly span: SpanId | undefined
  /** It was refused before anything ran. */
  readonly isRefused: boolean
  /** Number of equal calls before it in its wave; set before its key is read. */
  occurrence = 0
  /** The arguments that an approver substituted. */
  private edited: unknown = undefined
  private isResumed = false
  private ordinal: number | undefined = undefined
  private known: string | undefined = undefined
  private found: Redact.Found | undefined = undefined
  /** The secrets of all its arguments, once an approver substituted some. */
  private all: ReadonlyArray<string> | undefined = undefined

  constructor(wave: RecordedWave, { call, decided, gateCall, index, tool, trace }: Recordable) {
    this.wave = wave
    this.index = index
    this.call = call
    this.gateCall = gateCall
    this.tool = tool
    this.span = trace?.place
    this.isRefused = decided !== undefined
  }

  /** The line of a fact, if it makes one. */
  line(fact: CallFact): Journal.Line | undefined {
    // entries are made in any order, so note now what they redact
    if (fact._tag === "Arrived") {
      this.isResumed = fact.isResumed
      if (this.gateCall !== undefined) this.ordinal = this.wave.numbered?.()
    } else if ((fact._tag === "Starting" || fact._tag === "Started") && this.isEdited(fact.input.args)) {
      this.edited = fact.input.args
      this.all = undefined
    }
    const make = JournalFold.of(fact)
    return make === undefined ? undefined : new RecordLine(this, fact, make)
  }

  /** Identifies the call when it is submitted again. */
  get key(): string {
    return this.known ??= this.wave.near + this.digest(this.identity)
  }

  get identity(): string {
    const { named = "", origin: { agentPath, batch }, principal } = this.wave
    const { id, name } = this.call
    return JSON.stringify([principal, agentPath, batch, named, id, name, this.written, this.occurrence])
  }

  /** Fields that all entries have in common. */
  common(at: number): { readonly at: number; readonly principal: string; readonly session: string } {
    return { at, principal: this.wave.principal, session: this.wave.writer.session }
  }

  /** The entry of a fact about the call. */
  entry(at: number, body: JournalFold.Body): Journal.JournalEntry {
    const { call: { id: callId, name: tool }, index, key, wave: { origin, principal, writer: { session } } } = this
    const { agentPath, batch, process, wave } = origin
    return { at, principal, session, agentPath, batch, process, wave, index, callId, tool, key, ...body }
  }

  /** What is known of the call on arrival. */
  get arrival(): Omit<Journal.Of<"Arrived">, keyof Journal.Of<"OrphanEnded">> {
    const { gateCall, wave: { conversation } } = this
    const args = this.keptArguments
    if (gateCall === undefined) return { args }
    const within = {
      ...conversation === undefined ? {} : { conversation },
      ...this.ordinal === undefined ? {} : { ordinal: this.ordinal }
    }
    const { targets, tool } = gateCall
    const about = targets === undefined ? {} : { targets: targets.map(({ text }) => this.scrub(text)) }
    return { args, class: tool.class, revision: Revisions.of(tool), ...within, ...about }
  }

  /** Its idempotency key, for the arguments that it starts with. */
  idempotencyKey(input: Of<"Started">["input"], known: string | undefined): string {
    const { call, index, tool, wave: { origin, principal } } = this
    return known ?? IdempotencyKey.of(principal, origin, { call, index, tool, gateCall: input })
  }

  /** Whether a call that starts with these arguments arrived with others. */
  isEdited(args: unknown): boolean {
    return args !== this.gateCall?.args
  }

  get name(): string {
    return this.call.name
  }

  get term(): Journal.Term | undefined {
    return this.wave.term
  }

  /**
   * Whether another process may have taken the call over: it may change things, is on record, and its lease has
   * expired.
   */
  get isAtRisk(): boolean {
    const { begunAt, term, writer } = this.wave
    return term !== undefined && !term.isHeld && this.tool?.readOnly !== true &&
      (this.isResumed || writer.writtenAt >= begunAt)
  }

  /** The calls of the wave were taken over: they belong to this process in the term of that. */
  takenOver(): void {
    const { principal, writer: { driver } } = this.wave
    this.wave.term = driver.term?.(principal)
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

  /** Its arguments as submitted. Those that the host adds are left out: they may change, and so may the tool. */
  private get written(): string {
    const { malformed, params } = this.call
    try {
      return canonicalJson(malformed?.text ?? params)
    } catch {
      return ""
    }
  }

  private get keptArguments(): Journal.KeptArguments {
    // without its tool it is unknown which arguments are secret
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

  grant(grant: Grant): Grant {
    return grant.targets === undefined ? grant : { ...grant, targets: grant.targets.map((it) => this.scrub(it)) }
  }

  private get redactor(): Redact.Redactor {
    return this.tool?.redactor ?? Redact.usual
  }

  /** Its arguments, redacted. */
  private get hidden(): Redact.Found {
    const { call: { malformed, params }, gateCall } = this
    return this.found ??= this.redactor.arguments(gateCall?.args ?? malformed?.text ?? params)
  }

  private get secrets(): ReadonlyArray<string> {
    const { secrets } = this.hidden
    if (this.edited === undefined) return secrets
    return this.all ??= [...secrets, ...this.redactor.arguments(this.edited).secrets]
  }

  /** A hash of what approvers were shown. */
  shown(
    { approvers, args, preview, revision, targets, tool }: Omit<typeof Request.Type, "expiresAt" | "id" | "why">
  ): string {
    const about = [tool, revision, args, targets.map(({ text }) => text), preview]
    return this.digest(JSON.stringify(approvers === undefined ? about : [...about, approvers]))
  }

  /** A text without the secrets of the call. */
  scrub(text: string): string {
    return this.redactor.scrub(text, this.secrets)
  }
}

/** A line whose entry is made when it is first read. */
class RecordLine implements Journal.Line {
  private readonly record: CallRecord
  private readonly fact: CallFact
  private readonly make: JournalFold.Make<never>
  readonly term: Journal.Term | undefined
  private made: Journal.JournalEntry | undefined = undefined

  constructor(record: CallRecord, fact: CallFact, make: JournalFold.Make<never>) {
    this.record = record
    this.fact = fact
    this.make = make
    // a grant outlives the term of its call
    this.term = fact._tag === "Granted" ? undefined : record.term
  }

  get entry(): Journal.JournalEntry {
    return this.made ??= this.make(this.record, this.fact as never)
  }
}

const notKept = "It succeeded. Its output was not kept."
