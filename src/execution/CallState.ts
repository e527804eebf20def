/**
 * One call of a wave on its way: what is known of it so far, and its outcome at
 * the end.
 *
 * Plain mutable state, owned by the wave. It is the call's ticket for permits,
 * too.
 *
 * @since 0.1.0
 */
import type { Checkpoint } from "../output/Checkpoints.ts"
import type { GateCall } from "../policy/Gate.ts"
import type { Permit, Place, Ticket } from "../policy/Permit.ts"
import type { WaveHistory } from "../policy/RuleHistory.ts"
import type { ToolRules } from "../policy/RuleSet.ts"
import type { Grant } from "../store/Grant.ts"
import type { Reservation } from "../store/StateStore.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { Attempt, End } from "./Attempt.ts"
import type { Shown } from "./ConfirmedWrites.ts"
import type { Engine } from "./Engine.ts"
import type { NestedClock } from "./Forks.ts"
import type { Received } from "./Received.ts"
import type { Moved } from "./Targets.ts"

/**
 * What a call does with its wave.
 *
 * @category models
 * @since 0.1.0
 */
export interface Owner {
  readonly deadlock: (call: CallState, waitsFor: string) => void
  readonly redispatch: (call: CallState) => void
  /** Ends the call, also one that runs. */
  readonly end: (call: CallState, end: End) => void
  readonly settle: (call: CallState, end: End) => void
  /** Milliseconds that a call of the tool may run at most. */
  readonly limitOf: (tool: RegisteredTool) => number
}

/**
 * One call of a wave on its way.
 *
 * @category models
 * @since 0.1.0
 */
export class CallState implements Ticket {
  readonly owner: Owner
  readonly index: number
  readonly call: Received
  readonly queuedAt: number
  readonly parent: CallState | undefined
  /** The agent that makes it. */
  readonly agent: Pick<Engine, "permissions" | "agentPath">
  /** Where its success is remembered. */
  readonly history: WaveHistory
  /** A model is told of its outcome. */
  readonly told: boolean

  tool: RegisteredTool | undefined
  rules: ToolRules | undefined
  gateCall: GateCall | undefined
  /** The model asked to be called again. */
  heartbeat = false
  /** Decided already, but not settled: refused on Arrival, or cancelled before its turn. */
  decided: End | undefined
  /** Counted in the turn's number of calls. */
  counted = false
  reservation: Reservation | undefined

  resources: ReadonlyArray<string> = []
  permits: ReadonlyArray<Permit> = []
  held = 0
  state: "new" | "waiting" | "ready" | "left" = "new"
  children: Set<Ticket> | undefined
  joined: Ticket | undefined

  attempt: Attempt | undefined
  startedAt: number | undefined
  /** Events of the tool that no reader had room for. */
  dropped = 0
  outcome: ToolOutcome | undefined

  // what only few calls have: not there until it is set, since waves may be long

  /** What the host's guards said. */
  declare guarded?: ToolRefusal | undefined
  /** A person is being asked. */
  declare asking?: { readonly id: string | undefined; readonly withdraw: () => void } | undefined
  /** A person has allowed it: it is not asked about again. */
  declare approved?: true
  /** It is about something else than it was judged by. */
  declare moved?: Moved
  /** A person has refused it, before its turn came. */
  declare refused?: ToolRefusal
  /** The standing permission that let it through. */
  declare grant?: Grant | undefined
  /** The answer to its own question made that permission. */
  declare isOwnGrant?: boolean
  /** The diff that a person has seen of it. */
  declare shown?: Shown | undefined
  /** What is there before its writes is kept. */
  declare isCheckpointed?: true
  /** That it may change things without saying which, as it is kept. */
  declare note?: Checkpoint
  /** It wrote without having said so before. */
  declare isUnannounced?: true
  /** Its time, for the sub-agents that its handler makes. */
  declare nested?: NestedClock
  /** Its place in the line for permits. */
  declare place?: Place | undefined
  /** It waits with its question for an earlier call that writes to the same. */
  declare isDeferred?: boolean
  /** Called once it has its outcome and its permits are given back. */
  declare afterwards?: Array<() => void>
  /** Somebody is asked whether it may have another call's outcome. */
  declare sharing?: true | undefined
  /** Somebody is asked whether another call may have its outcome: that is kept, for it may end meanwhile. */
  declare isWanted?: true
  /** What an equal call has is nothing for this one: it runs itself. */
  declare anew?: true | undefined
  /** Calls that joined this one. */
  declare followers?: Array<CallState> | undefined

  constructor(
    owner: Owner,
    index: number,
    call: Received,
    queuedAt: number,
    parent: CallState | undefined,
    agent: CallState["agent"],
    history: WaveHistory,
    told: boolean
  ) {
    this.owner = owner
    this.index = index
    this.call = call
    this.queuedAt = queuedAt
    this.parent = parent
    this.agent = agent
    this.history = history
    this.told = told
  }

  onDeadlock(waitsFor: string): void {
    this.owner.deadlock(this, waitsFor)
  }

  onBlocked(because: string): void {
    this.owner.end(this, { _tag: "Denied", reason: { _tag: "ToolBlocked", because } })
  }

  onLost(because: string): void {
    this.owner.end(this, { _tag: "Cancelled", started: this.attempt !== undefined, reason: because })
  }

  /** Lets go of what a call with an outcome does not need: waves may be long. */
  forget(): void {
    this.attempt = undefined
    this.gateCall = undefined
    this.rules = undefined
    this.reservation = undefined
  }

  /** Gives the outcome of an end. */
  conclude(end: End, now: number): ToolOutcome {
    const { attempt, startedAt } = this
    // one object with all that outcomes have in common, filled up: this is made for every call
    const outcome: Record<string, unknown> = {
      _tag: end._tag,
      callId: this.call.id,
      tool: this.call.name,
      index: this.index,
      attempt: attempt === undefined ? 0 : attempt.number,
      queuedAt: this.queuedAt,
      commits: attempt === undefined ? 0 : attempt.commits
    }
    if (startedAt !== undefined) {
      outcome.startedAt = startedAt
      outcome.duration = now - startedAt
    }
    Object.assign(outcome, end)
    if (end._tag === "Succeeded" && this.grant !== undefined) outcome.grant = this.grant
    return outcome as unknown as ToolOutcome
  }
}
