/** An operation on the server: its state, folded from its events, and its log. */
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as AgentEvent from "../agent/AgentEvent.ts"
import type { Agent } from "../agent/AgentExecutor.ts"
import type { Cost } from "../agent/AgentLimits.ts"
import * as Spending from "../agent/Spending.ts"
import type { Operation } from "./ApiOperations.ts"
import type { OperationLog } from "./OperationLog.ts"
import type { KeptEvents, OperationStore, OperationStoreError, SubmittedOperation } from "./OperationStore.ts"
import { retryMillis, type Unfinished, type Work } from "./SessionPart.ts"
import { Stirs } from "./Stirs.ts"

export class ServedOperation implements Work {
  submitted: SubmittedOperation
  readonly log: OperationLog
  /** Completes once it has ended or is suspended. */
  readonly over = Deferred.makeUnsafe<void>()
  /** Prices of tokens, if its agent has a cost limit. */
  private readonly prices: Cost | undefined
  /** Secrets in the arguments of the calls of a message. */
  private readonly secretsIn: (message: Prompt.AssistantMessage) => ReadonlyArray<string>
  private readonly stirs: Stirs
  private state: "queued" | "running" | "suspended" | "ended" = "queued"
  private endedAt: number | undefined
  private end: Operation["end"]
  private turn = 0
  private calls = 0
  private used: AgentEvent.Usage | undefined
  private spent: number | undefined
  private readonly requests = new Set<string>()
  /** Calls that have started: one that continues after a restart starts again. */
  private readonly started = new Set<string>()
  /** The running agent. */
  agent: Agent | undefined
  /** Why it was cancelled in this start, or in an earlier one. */
  cancelled: string | undefined
  /** Why it does not continue by itself: its session was closed or lost. */
  left: "closed" | "stopped" | "lost" | undefined
  /** Messages that were said before it ran and deny approval requests, by id. */
  readonly settling = new Set<string>()
  /** Whether its end is stored. */
  isStored = false
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
    this.stirs = stirs
    this.secretsIn = secretsIn
    this.submitted = submitted
    this.cancelled = submitted.cancelled
    this.log = log
    this.prices = prices
  }

  get id(): string {
    return this.submitted.operation
  }

  get prompt(): string {
    return this.submitted.inputs[0].text
  }

  get isOver(): boolean {
    return this.state === "ended" || this.state === "suspended"
  }

  get hasEnded(): boolean {
    return this.state === "ended"
  }

  get overSince(): number | undefined {
    return this.endedAt
  }

  /** Whether it runs and waits for nothing but approvals. */
  get isWaiting(): boolean {
    return this.agent?.isWaiting() === true
  }

  get isAsking(): boolean {
    return this.info.pending > 0
  }

  get remains(): Unfinished {
    if (this.hasEnded && this.isStored) return "nothing"
    return this.left === "stopped" ? "stopped" : this.left === "closed" && !this.hasEnded ? "waiting" : "failed"
  }

  retryAt(now: number): number {
    return this.remains === "failed" ? now + retryMillis : Infinity
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
    return {
      id: this.id,
      session,
      agent,
      state: this.state === "running" && this.requests.size > 0 ? "waiting" : this.state,
      startedAt,
      ...this.endedAt === undefined ? {} : { endedAt: this.endedAt },
      prompt: this.prompt,
      turn: this.turn,
      usage: this.usage,
      calls: this.calls,
      pending: this.state === "suspended" ? this.requests.size : this.isOver ? 0 : this.requests.size,
      ...this.end === undefined ? {} : { end: this.end }
    }
  }

  /** Attaches the agent that runs it. A cancellation that came meanwhile reaches it now. */
  runs(agent: Agent): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.agent = agent
      this.state = "running"
      return this.cancelled === undefined ? Effect.void : agent.cancel(this.cancelled)
    })
  }

  /** Cancels it in this start of the server. */
  cancel(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.cancelled ??= reason
      return this.agent?.cancel(reason) ?? Effect.void
    })
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

  /** Ends its log; without an end, it is suspended. */
  close(at: number): void {
    this.agent = undefined
    if (this.end === undefined || this.end.reason._tag === "Suspended") {
      this.state = "suspended"
      this.end = undefined
    } else {
      this.state = "ended"
    }
    this.endedAt = at
    this.log.close()
    Deferred.doneUnsafe(this.over, Effect.void)
    this.stirs.stir(this.submitted)
  }

  /** Restores the events of earlier starts. */
  restore(kept: ReadonlyArray<KeptEvents>): void {
    this.log.restore(kept)
    for (const { events } of kept) for (const { event } of events) this.fold(event)
    this.end = undefined
    this.requests.clear()
    this.stored = { place: this.log.place, numbers: kept.length }
  }

  /** Restores an operation that has ended. */
  restoreEnd({ calls, end, endedAt, turn, usage }: Operation): void {
    this.calls = calls
    this.turn = turn
    this.used = usage
    this.end = end
    this.isStored = true
    const at = endedAt ?? this.submitted.startedAt
    // the server was killed before the event of the end was stored
    if (end !== undefined && !this.log.hasEnd) {
      const about = { agentPath: [], operation: this.id, turn, at }
      this.log.append({ _tag: "OperationEnd", ...about, ...end, usage, turns: turn, calls })
    }
    this.close(at)
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
      case "OperationEnd":
        this.end = { reason: event.reason, message: event.message, text: event.text }
        return false
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
