/** The log of one operation: all its events, except that of fragments of texts and reports of tools the latest are kept. */
import * as AgentEvent from "../../agent/AgentEvent.ts"
import { type Bounds, EventLog } from "../work/EventLog.ts"
import { RedactedEvents } from "../work/RedactedEvents.ts"
import type { KeptEvents } from "./OperationStore.ts"

export class OperationLog extends EventLog<AgentEvent.Wire, AgentEvent.Wire | undefined> {
  private readonly redacted: RedactedEvents

  constructor(id: string, bounds: Bounds) {
    const redacted = new RedactedEvents()
    super(id, bounds, { nameOf: AgentEvent.sseName, isLifecycle, redact: (event) => redacted.ofAgent(event) })
    this.redacted = redacted
  }

  /** Readers other than the owner do not get these texts, which a model may repeat. */
  hide(secrets: ReadonlyArray<string>): void {
    this.redacted.learn(secrets)
  }

  /** Whether it has the end of the operation. */
  get hasEnd(): boolean {
    const event = this.life.at(-1)?.event
    return event?._tag === "OperationEnd" && event.reason._tag !== "Suspended"
  }

  /** Restores the stored events of earlier logs, before any other event. Their positions stay valid. */
  restore(kept: ReadonlyArray<KeptEvents>): void {
    for (const { events, log } of kept) {
      for (const { event, place } of events) this.append(event, undefined, place)
      this.follows(log)
    }
  }
}

/** The whole answer follows its parts, and the outcome of a call what it reported. */
const isLifecycle = (event: AgentEvent.Wire): boolean =>
  event._tag !== "AssistantMessagePart" && !AgentEvent.isReport(event)
