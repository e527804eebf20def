/** The log of one wave: all lifecycle events, and the latest events that tools emit. */
import * as ToolEvent from "../../core/facts/ToolEvent.ts"
import { type Bounds, EventLog } from "../work/EventLog.ts"
import { RedactedEvents } from "../work/RedactedEvents.ts"
import { isLifecycle } from "./WaveText.ts"

export class WaveLog extends EventLog<ToolEvent.Wire> {
  constructor(id: string, bounds: Bounds) {
    const redacted = new RedactedEvents()
    super(id, bounds, { nameOf: ToolEvent.sseName, isLifecycle, redact: (event) => redacted.of(event) })
  }

  /** The last event of the wave; absent until it has ended. */
  get end(): ToolEvent.Wire | undefined {
    const event = this.life.at(-1)?.event
    return event !== undefined && ToolEvent.isEnd(event) && event.agentPath.length === 0 ? event : undefined
  }
}
