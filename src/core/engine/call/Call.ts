/**
 * The state of one call of a wave, from submission to outcome.
 *
 * It is also the call's ticket for permits.
 */
import type * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Answer } from "../../contract/ToolContext.ts"
import type { Gate, GateCall } from "../../gates/Gate.ts"
import type { Objection, Permissions } from "../../gates/Permissions.ts"
import type { Permit, Ticket } from "../../gates/Permit.ts"
import type { ShadowPolicy } from "../../gates/ShadowPolicy.ts"
import type { Checkpoint } from "../../output/Checkpoints.ts"
import type { WaveHistory } from "../../rules/RuleHistory.ts"
import type { ToolRules } from "../../rules/RuleSet.ts"
import type { Reservation } from "../../store/Claims.ts"
import type { GivenApproval } from "../../vocabulary/Approvers.ts"
import type { FileChange } from "../../vocabulary/FileChange.ts"
import type { Given, Grant } from "../../vocabulary/Grant.ts"
import type { RegisteredTool, ToolClass } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../../vocabulary/ToolRefusal.ts"
import * as CallEnd from "../data/CallEnd.ts"
import type * as Memory from "../data/Memory.ts"
import type { Received } from "../data/Received.ts"
import type { CallRecord } from "../report/CallRecord.ts"
import type { CallTrace } from "../report/CallTrace.ts"
import type { Observed, Reporter } from "../report/Reporter.ts"
import type { Attempt } from "./attempt/Attempt.ts"

export type Phase =
  /** Its run has not begun, or is being dispatched. */
  | { readonly _tag: "Arrived" }
  /** It waits for an approver. */
  | { readonly _tag: "Asking" }
  /** It shares the outcome of an equal call that is running. */
  | { readonly _tag: "Joined"; readonly leader: Call }
  /** It waits for permits, or is rechecked while it holds them. */
  | { readonly _tag: "Queued" }
  /** Its handler was started. */
  | Attempt
  /** It ended here, and the journal is asked whether another process has taken it over. */
  | {
    readonly _tag: "Doubted"
    readonly leader: Call | undefined
    readonly attempt: Attempt | undefined
    /** Whether its end may wait until the journal says whose it is. */
    mayWait: boolean
    /** Whether it was cancelled while its session stayed: nobody resumes it. */
    isDropped: boolean
  }
  /** It has its outcome. */
  | { readonly _tag: "Settled"; readonly outcome: ToolOutcome; attempt: Attempt | undefined }

/** The phases without fields. */
export const phases: { readonly arrived: Phase; readonly asking: Phase; readonly queued: Phase } = {
  arrived: { _tag: "Arrived" },
  asking: { _tag: "Asking" },
  queued: { _tag: "Queued" }
}

export interface Agent {
  readonly permissions: Permissions["Service"]
  /** A second policy that decides nothing, if there is one. */
  readonly shadow: ShadowPolicy["Service"] | undefined
  /** Names of the sub-agents from the root down to this one; empty: the root. */
  readonly agentPath: ReadonlyArray<string>
}

/** How a call's targets changed while it waited. */
export interface Moved {
  /** The targets that the call was judged by. */
  readonly from: GateCall["targets"]
  /** The resource keys that it holds differ from those it would touch now. */
  readonly hasOtherKeys: boolean
}

/** Computes the file changes that a write would make. */
export type Previewing = Effect.Effect<ReadonlyArray<FileChange>, unknown>

/** A preview that approvers saw, and the fingerprint of the files it was made from. */
export interface Shown {
  readonly again: Previewing
  readonly fingerprint: string
}

/** The decisions of gates and approvers about a call. */
export interface Consent {
  /** Gates of the host that were asked about it, and are notified how it ends. */
  readonly askedGates?: Set<Gate>
  /** The refusal of the host's gates, before anything was reserved. */
  readonly guarded?: ToolRefusal | undefined
  /** It is refused before its turn: an approver denied it, or there is no approver. */
  readonly refused?: ToolRefusal
  /** No further request is made: an approver or a reviewer agreed, or the write changes nothing. */
  readonly approved?: "answer" | "reviewer" | "unchanged"
  /** A reviewer is asked where there is no approver. */
  readonly isReviewable?: true
  /** The grant that covers it. */
  readonly grant?: Grant | undefined
  /** Who approved it with edited arguments, which may need others. */
  readonly editedBy?: ReadonlyArray<GivenApproval> | undefined
  /** What its approvers say besides yes. */
  readonly answer?: Answer | undefined
  /** The answer to its own request created that permission. */
  readonly isOwnGrant?: boolean
  /** The one-time approval of this call. */
  readonly allowedOnce?: Given
  /** The preview that approvers saw. */
  readonly shown?: Shown | undefined
  /** Its targets changed since it was judged. */
  readonly moved?: Moved
  /** It has not started and may be resumed: an answer is pending, or its host is stopping. */
  readonly isSuspended?: true
}

/** Relations of a call to equal calls, and the calls that wait for it. */
export interface Peers {
  /** It runs itself, because it cannot share an equal call's outcome. */
  readonly runsItself?: true | undefined
  /** A request is pending whether it may share an equal call's outcome. */
  readonly isSharing?: true | undefined
  /** A request is pending whether an equal call may share its outcome, so the outcome is kept if it ends meanwhile. */
  readonly isWanted?: true
  /** Calls that joined this one. */
  readonly followers?: Array<Call> | undefined
  /** The earlier call that must be over before approval of this one is requested. */
  readonly behind?: Call | undefined
  /** Called when it has its outcome and has returned its permits, or when it joins another call. */
  readonly afterwards?: Set<() => void> | undefined
}

/** What is kept so that a call's writes can be undone. */
export interface Undo {
  /** The content that its writes replace is kept. */
  readonly isCheckpointed?: true
  /** It wrote without announcing the write. */
  readonly isUnannounced?: true
  /** The checkpoint noting that it may change things, without naming them. */
  readonly note?: Checkpoint
}

const nothing = {}

/** What drives the calls of a wave, as a call sees it. */
export interface Driver {
  /** The running call whose handler makes its calls. */
  readonly parent: Call | undefined
  readonly agent: Agent
  /** Where successful calls are remembered. */
  readonly history: WaveHistory
  /** A model receives the outcomes. */
  readonly told: boolean
  /** Calls of the wave that write run in parallel. */
  readonly isParallel: boolean
  /** Epoch milliseconds at which the calls were submitted. */
  readonly begunAt: number
  /** Where facts are reported; absent without observers. */
  readonly facts: Reporter | undefined
  readonly now: () => number
  /** Why a call needs approval because of where its arguments come from, if it does. */
  readonly unproved: (call: Call) => Objection | undefined
  /** Ends a call, even while it runs. */
  readonly end: (call: Call, end: CallEnd.End) => void
  /** Gives a call its outcome; `fiber` is set if its handler is still running. */
  readonly settle: (call: Call, end: CallEnd.End, fiber?: Fiber.Fiber<unknown, unknown>) => void
  /** Dispatches a call again after the call that it joined. */
  readonly redispatch: (call: Call) => void
  /** Whether a call without an outcome waits for nothing but approvals. */
  readonly rests: (call: Call) => boolean
}

/** The state of one call of a wave. */
export class Call implements Ticket {
  readonly driver: Driver
  readonly index: number
  readonly call: Received

  phase: Phase = phases.arrived
  /** Its end, if known before its turn: refused at arrival, cancelled, or after the end of its wave. */
  decided: CallEnd.End | undefined
  tool: RegisteredTool | undefined
  rules: ToolRules | undefined
  gateCall: GateCall | undefined
  /** The model asked to be called again. */
  heartbeat = false
  /** It counts towards the turn's limit of calls. */
  counted = false
  reservation: Reservation | undefined
  /** The fiber that drives it while it waits; while it runs, the fiber that requests approval of its write. */
  waiting: Fiber.Fiber<unknown> | undefined

  // its permits
  resources: ReadonlyArray<string> = []
  permits: ReadonlyArray<Permit> = []
  held = 0
  state: Ticket["state"] = "new"
  children: Set<Ticket> | undefined

  // rarely used fields: all calls share one empty value until they need their own

  /** The decisions of gates and approvers. */
  consent: Consent = nothing
  /** Relations to equal calls, and the calls that wait for it. */
  peers: Peers = nothing
  /** What is kept so that its writes can be undone. */
  undo: Undo = nothing
  /** Who observes it. */
  observed: Observed = nothing
  /** What is on record of it from before a crash. */
  declare memory?: Memory.Memory

  constructor(
    driver: Driver,
    index: number,
    call: Received
  ) {
    this.driver = driver
    this.index = index
    this.call = call
  }

  get queuedAt(): number {
    return this.driver.begunAt
  }

  /** The running call whose handler makes this one. */
  get parent(): Call | undefined {
    return this.driver.parent
  }

  get agent(): Agent {
    return this.driver.agent
  }

  /** Where its success is remembered. */
  get history(): WaveHistory {
    return this.driver.history
  }

  /** A model receives its outcome. */
  get told(): boolean {
    return this.driver.told
  }

  /** The class whose permits it takes, if it differs from its tool's because the wave runs in parallel. */
  get class(): ToolClass | undefined {
    return this.tool?.class === "SerialMut" && this.driver.isParallel ? "ConcurrentMut" : undefined
  }

  get trace(): CallTrace | undefined {
    return this.observed.trace
  }

  get record(): CallRecord | undefined {
    return this.observed.record
  }

  get outcome(): ToolOutcome | undefined {
    return this.phase._tag === "Settled" ? this.phase.outcome : undefined
  }

  get isSettled(): boolean {
    return this.phase._tag === "Settled"
  }

  get attempt(): Attempt | undefined {
    const { phase } = this
    switch (phase._tag) {
      case "Running":
        return phase
      case "Settled":
      case "Doubted":
        return phase.attempt
      default:
        return undefined
    }
  }

  /** Its handler was started, now or before a crash. */
  get hasStarted(): boolean {
    return this.attempt !== undefined || this.hasRun
  }

  /** Its handler was started in an earlier life: what it used stays used. */
  get hasRun(): boolean {
    return this.recounts !== undefined
  }

  /** Whether the store has counted its start in an earlier life; absent: there was none. */
  get recounts(): Memory.Counted | undefined {
    const { memory } = this
    return memory === undefined || memory._tag === "Asked" ? undefined : memory.counted
  }

  /** Its place in the wave, if it does not run again. */
  get past(): Memory.Ended | undefined {
    return this.memory?._tag === "Ended" ? this.memory : undefined
  }

  /** Its end unless it starts again. */
  get unless(): CallEnd.End | undefined {
    const { memory } = this
    return memory === undefined || memory._tag === "Asked" ? undefined : memory.unless
  }

  /** What approvers and a reviewer were asked about it in an earlier life. */
  get answers(): Memory.Answers | undefined {
    const { memory } = this
    return memory === undefined || memory._tag === "Ended" ? undefined : memory.answers
  }

  /** Why approval is requested before it runs again. */
  get why(): string | undefined {
    return this.memory?._tag === "Started" ? this.memory.why : undefined
  }

  /** The key that services know its earlier attempts by. */
  get earlierKey(): string | undefined {
    return this.memory?._tag === "Started" ? this.memory.idempotencyKey : undefined
  }

  /** The call whose outcome it waits for. Permits use it to find deadlocks. */
  get joined(): Call | undefined {
    const { phase } = this
    return phase._tag === "Joined" || phase._tag === "Doubted" ? phase.leader : undefined
  }

  /** The end of its attempt, ignored if the call has its outcome already. */
  ended(end: CallEnd.End, fiber: Fiber.Fiber<unknown, unknown> | undefined): void {
    this.driver.settle(this, end, fiber)
  }

  /** Reports that its handler starts, or that the result of an earlier attempt is used instead. */
  began(attempt: number, limitMillis: number): void {
    const { driver, gateCall, past } = this
    const { facts } = driver
    if (facts === undefined) return
    const at = driver.now()
    if (past === undefined) facts.report(this.start("Started", at, attempt, limitMillis), this)
    else facts.report({ _tag: "Recalled", at, attempt, args: gateCall?.args }, this)
  }

  /** Returns the fact that reports its start. */
  start<T extends "Starting" | "Started">(_tag: T, at: number, attempt: number, limitMillis: number) {
    const { consent: { approved, grant }, earlierKey, gateCall, reservation, tool } = this
    const { sandbox } = gateCall!
    return {
      _tag,
      at,
      attempt,
      limitMillis,
      mutates: tool!.readOnly !== true,
      allowedBy: grant?.id ?? (approved === undefined || approved === "unchanged" ? "policy" : approved),
      input: gateCall!,
      idempotencyKey: earlierKey,
      sandbox: sandbox && { driver: sandbox.driver, network: sandbox.network },
      reservation: reservation?.leaseMillis === undefined ? undefined : reservation
    }
  }

  /** An attempt failed, and another may follow. */
  failed(attempt: number): void {
    this.driver.facts?.report({ _tag: "AttemptFailed", at: this.driver.now(), attempt }, this)
  }

  /** A write of its handler has landed. */
  committed(commits: number): void {
    this.driver.facts?.report({ _tag: "Committed", at: this.driver.now(), commits }, this)
  }

  onDeadlock(waitsFor: string): void {
    this.driver.end(this, CallEnd.refused({ _tag: "ReentryRefused", waitsFor }))
  }

  onBlocked(because: string): void {
    this.driver.end(this, CallEnd.refused({ _tag: "ToolBlocked", because }))
  }

  onLost(because: string): void {
    this.driver.end(this, { _tag: "Cancelled", started: this.phase._tag === "Running", reason: because })
  }

  /** Notifies those who wait until it no longer writes. */
  over(): void {
    const { afterwards } = this.peers
    if (afterwards === undefined) return
    this.peers = { ...this.peers, afterwards: undefined }
    for (const run of afterwards) run()
  }

  /** Releases what a call with an outcome does not need: waves may be long. */
  forget(): void {
    // the first call stays complete as long as its wave is the last
    if (this.index === 0) return
    if (this.phase._tag === "Settled") this.phase.attempt = undefined
    this.gateCall = undefined
    this.rules = undefined
    this.reservation = undefined
  }
}
