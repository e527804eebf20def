/** An operation on the server: its state, folded from its events, and its log. */
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as AgentEvent from "../../agent/AgentEvent.ts"
import type { Agent } from "../../agent/AgentExecutor.ts"
import type { Cost } from "../../agent/AgentLimits.ts"
import * as Spending from "../../agent/Spending.ts"
import type { Operation } from "../api/ApiOperations.ts"
import type { Owner } from "../users/Principals.ts"
import { Stirs } from "../work/Stirs.ts"
import { Work } from "../work/Work.ts"
import type { OperationLog } from "./OperationLog.ts"
import type { KeptEvents, OperationStore, OperationStoreError, SubmittedOperation } from "./OperationStore.ts"

type End = NonNullable<Operation["end"]>

export class ServedOperation extends Work<Agent, End> {
  submitted: SubmittedOperation
  readonly log: OperationLog
  /** Prices of tokens, if its agent has a cost limit. */
  private readonly prices: Cost | undefined
  /** Secrets in the arguments of the calls of a message. */
  private readonly secretsIn: (message: Prompt.AssistantMessage) => ReadonlyArray<string>
  private turn = 0
  private calls = 0
  private used: AgentEvent.Usage | undefined
  private spent: number | undefined
  private readonly requests = new Set<string>()
  /** Calls that have started: one that continues after a restart starts again. */
  private readonly started = new Set<string>()
  /** Messages that were said before it ran and deny approval requests, by id. */
  readonly settling = new Set<string>()
  /** Lifecycle events up to this place are stored, under so many numbers. */
  private stored = { place: 0, numbers: 0 }
  private readonly saving = Semaphore.makeUnsafe(1)
  /** Open while there are lifecycle events that are not stored. */
  readonly unsaved = Latch.makeUnsafe()

  constructor(
    submitted: SubmittedOperation,
    log: OperationLog,
    prices: Cost | undefined,
    secretsIn: (message: Prompt.AssistantMessage) => ReadonlyArray<string> = () => [],
    stirs: Stirs = new Stirs()
  ) {
    super(stirs, { _tag: "Running", process: undefined, wanted: { cancelled: submitted.cancelled } })
    this.secretsIn = secretsIn
    this.submitted = submitted
    this.log = log
    this.prices = prices
  }

  get id(): string {
    return this.submitted.operation
  }

  get owner(): Owner {
    return this.submitted
  }

  get prompt(): string {
    return this.submitted.inputs[0].text
  }

  /** It is over and has its end. */
  get hasEnded(): boolean {
    return this.phase._tag === "Over" && this.phase.outcome._tag === "Ended"
  }

  get overSince(): number | undefined {
    return this.phase._tag === "Over" ? this.phase.at : undefined
  }

  get isAsking(): boolean {
    return this.info.pending > 0
  }

  get usage(): AgentEvent.Usage {
    return this.used ?? nothing
  }

  /** In the unit of the prices. */
  get cost(): number | undefined {
    return this.spent
  }

  get info(): Operation {
    const { agent, session, startedAt } = this.submitted
    const end = this.outcome?._tag === "Ended" ? this.outcome.end : undefined
    return {
      id: this.id,
      session,
      agent,
      state: this.state,
      startedAt,
      ...this.overSince === undefined ? {} : { endedAt: this.overSince },
      prompt: this.prompt,
      turn: this.turn,
      usage: this.usage,
      calls: this.calls,
      pending: end === undefined ? this.requests.size : 0,
      ...end === undefined ? {} : { end }
    }
  }

  private get state(): Operation["state"] {
    switch (this.phase._tag) {
      case "Over":
        return this.hasEnded ? "ended" : "suspended"
      case "Running":
        return this.process === undefined ? "queued" : this.requests.size > 0 ? "waiting" : "running"
      case "Arrived":
      case "Closing":
        return "running"
    }
  }

  /** Adds an event. Tells whether the state changed. */
  tell(event: AgentEvent.AgentEvent): boolean {
    const wire = AgentEvent.toWire(event)
    if (Result.isFailure(wire)) return false
    if (event._tag === "AssistantMessageFinal") this.log.hide(this.secretsIn(event.message))
    this.log.append(wire.success)
    this.unsaved.openUnsafe()
    const isChanged = this.fold(wire.success)
    if (this.requests.size > 0) this.stirs.stir(this.submitted)
    return isChanged
  }

  /** An end that no agent reports. */
  endOf(reason: AgentEvent.EndReason, at: number, text = ""): AgentEvent.OperationEnd {
    return {
      _tag: "OperationEnd",
      agentPath: [],
      operation: this.id,
      turn: this.turn,
      at,
      reason,
      text,
      history: Prompt.empty,
      usage: this.usage,
      turns: this.turn,
      calls: this.calls
    }
  }

  /** The operation after it has ended this way. */
  ending({ at, reason, text }: AgentEvent.OperationEnd): Operation {
    const message = AgentEvent.describe(reason)
    return {
      ...this.info,
      state: "ended",
      endedAt: at,
      pending: 0,
      end: { reason: AgentEvent.reasonToWire(reason), message, text }
    }
  }

  /** Adds the last event. Unless it is suspended, this is its end. */
  finish(ended: AgentEvent.OperationEnd, isStored: boolean): void {
    const { end } = this.ending(ended)
    this.tell(ended)
    if (ended.reason._tag !== "Suspended" && end !== undefined) this.decide({ _tag: "Ended", end, isStored })
  }

  /** Restores an operation that is not continued for now. */
  rest(at: number): void {
    this.restoreOver({ _tag: "Failed" }, at)
  }

  /** Restores the events of earlier starts. */
  restore(kept: ReadonlyArray<KeptEvents>): void {
    this.log.restore(kept)
    for (const { events } of kept) for (const { event } of events) this.fold(event)
    this.requests.clear()
    this.stored = { place: this.log.place, numbers: kept.length }
  }

  /** Restores an operation that has ended. */
  restoreEnd({ calls, end, endedAt, turn, usage }: Operation): void {
    this.calls = calls
    this.turn = turn
    this.used = usage
    const at = endedAt ?? this.submitted.startedAt
    // the server was killed before the event of the end was stored
    if (end !== undefined && !this.log.hasEnd) {
      const about = { agentPath: [], operation: this.id, turn, at }
      this.log.append({ _tag: "OperationEnd", ...about, ...end, usage, turns: turn, calls })
    }
    this.restoreOver(end === undefined ? { _tag: "Failed" } : { _tag: "Ended", end, isStored: true }, at)
  }

  /** Stores the lifecycle events that are not stored yet. */
  save(store: OperationStore["Service"]): Effect.Effect<void, OperationStoreError> {
    return this.saving.withPermit(Effect.suspend(() => {
      const { numbers, place: before } = this.stored
      this.unsaved.closeUnsafe()
      const { id: log, place } = this.log
      const events = this.log.kept(before).map(([place, event]) => ({ place, event }))
      if (events.length === 0) return Effect.void
      return Effect.map(store.append(this.submitted, this.id, numbers, { log, events }), () => {
        this.stored = { place, numbers: numbers + 1 }
      })
    }))
  }

  protected waits(agent: Agent): boolean {
    return agent.isWaiting()
  }

  private fold(event: AgentEvent.Wire): boolean {
    if ("operation" in event && event.agentPath.length === 0 && event.turn > this.turn) this.turn = event.turn
    switch (event._tag) {
      case "AssistantMessageFinal":
        this.used = Spending.sum(this.used, event.usage)
        this.spend(event)
        return true
      case "ExecutingTool": {
        this.started.add(JSON.stringify([event.operation, event.turn, event.callId]))
        this.calls = this.started.size
        return false
      }
      case "ToolApprovalRequested":
        this.requests.add(event.requestId)
        return true
      case "ToolApprovalResolved":
        return this.requests.delete(event.requestId)
      default:
        return false
    }
  }

  private spend(
    { model, provider, usage }: Extract<AgentEvent.Wire, { readonly _tag: "AssistantMessageFinal" }>
  ): void {
    const price = this.prices && Spending.priceOf(this.prices, { provider, model })
    if (price !== undefined) this.spent = (this.spent ?? 0) + Spending.costOf(usage, price)
  }
}

const nothing: AgentEvent.Usage = { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 }
