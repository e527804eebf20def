/**
 * Where the engine reports what happens: the only place from which facts reach the journal, spans, metrics and events.
 *
 * An unobserved wave reports nowhere (`WaveHost.facts`), so its facts are not even made.
 */
import type * as Effect from "effect/Effect"
import * as Redact from "../../../internal/secrets/index.ts"
import type { CallFact, Of, Origin, WaveFact } from "../../facts/Fact.ts"
import { isEnd, type ToolEvent } from "../../facts/ToolEvent.ts"
import type { RegisteredTool, Registry } from "../../vocabulary/ToolHandlers.ts"
import type { Received } from "../data/Received.ts"
import type { CallRecord } from "./CallRecord.ts"
import type { CallTrace } from "./CallTrace.ts"
import * as EventFold from "./EventFold.ts"
import type { EventHub } from "./EventHub.ts"
import * as EventSecrets from "./EventSecrets.ts"
import type { JournalWriter } from "./JournalWriter.ts"
import type { WaveTrace } from "./Telemetry.ts"

/** The observers of a call. */
export interface Observed {
  /** Its journal entries, if there is a journal. */
  readonly record?: CallRecord
  /** Its telemetry, if enabled. */
  readonly trace?: CallTrace
  /** Number of its tool's reports for which a reader had no room. */
  readonly dropped?: number
}

/** A call that facts are about. */
export interface Subject extends EventSecrets.Secretive {
  readonly index: number
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  observed: Observed
}

/** Reports what happens to one wave and its calls. */
export class Reporter {
  readonly hub: EventHub
  readonly origin: Origin
  private readonly trace: WaveTrace | undefined
  private readonly journal: JournalWriter | undefined
  private readonly registry: () => Registry
  private calls: ReadonlyArray<Subject> = []
  private sequence = 0
  /** Events that are published once the wave continues; `undefined` if none are held back. */
  private held: Array<ToolEvent> | undefined
  declare private made?: EventSecrets.EventSecrets

  constructor(
    hub: EventHub,
    origin: Origin,
    journal: JournalWriter | undefined,
    trace: WaveTrace | undefined,
    registry: () => Registry
  ) {
    this.hub = hub
    this.origin = origin
    this.journal = journal
    this.trace = trace
    this.registry = registry
  }

  /** Whether the wave has any observers now. */
  get isObserved(): boolean {
    return this.journal !== undefined || this.trace !== undefined || this.hub.takesReports
  }

  /** Reports that the calls of the wave were submitted. */
  begin(calls: ReadonlyArray<Subject>, at: number): void {
    this.calls = calls
    this.trace?.begin(calls, this.registry())
    this.reportWave({ _tag: "WaveStarted", at, calls: calls.length })
    if (!this.hub.isObserved) return
    for (const subject of calls) {
      const { malformed, params } = subject.call
      this.report({ _tag: "Queued", at, params: malformed?.text ?? params }, subject)
    }
  }

  /** Reports a fact about a call. */
  report(fact: CallFact, call: Subject, record = call.observed.record): void {
    if (record !== undefined) {
      const line = record.line(fact)
      if (line !== undefined) this.journal!.note(line)
    }
    call.observed.trace?.report(fact, call.tool)
    const isReport = fact._tag === "Reported"
    if (isReport ? !this.hub.takesReports : !this.hub.isObserved) return
    const { call: { id: callId, name: tool }, index } = call
    const body = EventFold.ofCall(fact, { callId, tool, index })
    if (body === undefined) return
    const event = this.stamped(this.secrets.ofCall(body, call))
    if (!isReport) return this.publish(event)
    const dropped = this.hub.report(event)
    const { observed } = call
    if (dropped > 0) call.observed = { ...observed, dropped: (observed.dropped ?? 0) + dropped }
  }

  /** Reports a fact about a call that may have ended: it has no event. */
  reportLate(fact: CallFact, call: Subject): void {
    const { record, trace } = call.observed
    const line = record?.line(fact)
    if (line !== undefined) this.journal!.note(line)
    trace?.report(fact, call.tool)
  }

  /**
   * Writes the start of a call to the journal before it starts; gives whether it is on record. If not, it will never
   * be.
   */
  write(fact: Of<"Starting">, record: CallRecord): Effect.Effect<boolean> {
    return this.journal!.write(record.line(fact)!)
  }

  /** Reports a fact about the wave. */
  reportWave(fact: WaveFact): void {
    this.trace?.report(fact)
    const body = this.hub.isObserved ? EventFold.ofWave(fact) : undefined
    if (body !== undefined) this.publish(this.stamped(isEnd(body) ? this.secrets.ofEnd(body, this.calls) : body))
    // frees the calls: handlers may keep the reporter alive for long
    if (fact._tag === "WaveEnded") this.calls = []
  }

  /** Holds events back until it is known whether the wave continues. */
  hold(): void {
    this.held ??= []
  }

  /** Publishes the events that were held back. */
  release(): void {
    const { held = [] } = this
    this.held = undefined
    for (const event of held) this.hub.publish(event)
  }

  private publish(event: ToolEvent): void {
    if (this.held === undefined) this.hub.publish(event)
    else this.held.push(event)
  }

  private stamped(body: EventFold.Body): ToolEvent {
    return { ...body, ...this.origin, sequence: ++this.sequence } as ToolEvent
  }

  private get secrets(): EventSecrets.EventSecrets {
    return this.made ??= new EventSecrets.EventSecrets(this.registry)
  }
}

/** What a user said, outside of waves. */
export interface Heard {
  readonly at: number
  readonly batch: string
  readonly conversation: string | undefined
  readonly ordinal: number
  readonly from: "user" | "foreign"
  readonly text: string
}

/** Reports what a user said. */
export const heard = (journal: JournalWriter, principal: string, { conversation, text, ...heard }: Heard): void =>
  journal.note({
    entry: {
      _tag: "Heard",
      ...heard,
      principal,
      session: journal.session,
      ...(conversation === undefined ? {} : { conversation }),
      ...(journal.driver.keeps.arguments === "full" ? { text: Redact.usual.scrub(text, []) } : {})
    }
  })

/** Reports that a grant was revoked, which happens outside of waves. */
export const revoked = (journal: JournalWriter, principal: string, fact: Of<"Revoked">): void =>
  journal.note({ entry: { ...fact, principal, session: journal.session } })
