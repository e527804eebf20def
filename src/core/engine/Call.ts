/**
 * One call of a wave on its way: what is known of it, and in which phase it is.
 *
 * It is the call's ticket for permits, too.
 */
import type * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { ApprovalRequest, Resolution } from "../gates/ApprovalRequest.ts"
import type { Gate, GateCall } from "../gates/Gate.ts"
import type { Permissions } from "../gates/Permissions.ts"
import type { Permit, Ticket } from "../gates/Permit.ts"
import type { Checkpoint } from "../output/Checkpoints.ts"
import type { WaveHistory } from "../rules/RuleHistory.ts"
import type { Success, ToolRules } from "../rules/RuleSet.ts"
import type { Reservation } from "../store/Claims.ts"
import type { FileChange } from "../vocabulary/FileChange.ts"
import type { Given, Grant } from "../vocabulary/Grant.ts"
import type { RegisteredTool, ToolClass } from "../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { Attempt } from "./Attempt.ts"
import * as CallEnd from "./CallEnd.ts"
import type { Received } from "./Received.ts"
import type { CallRecord } from "./report/CallRecord.ts"
import type { CallTrace } from "./report/CallTrace.ts"
import type { Observed, Reporter } from "./report/Reporter.ts"

/** Where a call is on its way. */
export type Phase =
  /** Its run has not begun, or is being dispatched. */
  | { readonly _tag: "Arrived" }
  /** A person has to allow it. */
  | { readonly _tag: "Asking" }
  /** It gets what an equal call gets that runs. */
  | { readonly _tag: "Joined"; readonly leader: Call }
  /** It is on its way to its permits, or looked at once more with them. */
  | { readonly _tag: "Queued" }
  /** Its handler was started. */
  | Attempt
  /** It has an end here, and the journal is asked whether another process has taken it over. */
  | { readonly _tag: "Doubted"; readonly leader: Call | undefined; readonly attempt: Attempt | undefined }
  /** It has its outcome. */
  | { readonly _tag: "Settled"; readonly outcome: ToolOutcome; attempt: Attempt | undefined }

/** The phases that say nothing else. */
export const phases: { readonly arrived: Phase; readonly asking: Phase; readonly queued: Phase } = {
  arrived: { _tag: "Arrived" },
  asking: { _tag: "Asking" },
  queued: { _tag: "Queued" }
}

/** The agent that makes a call. */
export interface Agent {
  readonly permissions: Permissions["Service"]
  /** Names of the sub-agents from the root down to this one; empty: the root. */
  readonly agentPath: ReadonlyArray<string>
}

/** What became of a call's targets while it waited. */
export interface Moved {
  /** What the call was judged by. */
  readonly from: GateCall["targets"]
  /** The keys that it holds are not those of what it would touch now. */
  readonly hasOtherKeys: boolean
}

/** Says what a write does to files. */
export type Previewing = Effect.Effect<ReadonlyArray<FileChange>, unknown>

/** A preview that a person has seen, and the files it was made of. */
export interface Shown {
  readonly again: Previewing
  readonly fingerprint: string
}

/** How a call that runs nothing any more stands among those of its wave. */
export interface Recalled {
  /** As what it stood in its wave when it was handed over before. */
  readonly class: ToolClass | "ShortCircuit"
  /** Epoch milliseconds at which it ended; of one whose end nobody knows, at which it started. */
  readonly endedAt: number
  /** Where its output led, as far as that is on record. */
  readonly routes?: Success["routes"] | undefined
  /** Its end is not on record: its tool says that it happened, and what it gave. */
  readonly happened?: { readonly result: unknown; readonly attempt: number } | undefined
}

/** An answer that is on record: it holds for the same question about the same. */
export interface Answered {
  /** What was shown, as it is recorded. */
  readonly shown: string
  /** They were asked whether it runs once more. */
  readonly again: boolean
  readonly resolution: Resolution
}

/** What a record says of a call that is handed over again after a crash. */
export interface Resumed {
  /** What it ends with unless it starts again: it had started, and may have changed things. */
  readonly unless?: CallEnd.End | undefined
  /** Under which its earlier attempts are known elsewhere. */
  readonly idempotencyKey?: string | undefined
  /** Why a person is asked before it runs again. */
  readonly why?: string | undefined
  /** The question that was open. */
  readonly question?: Pick<ApprovalRequest, "id" | "requestedAt" | "expiresAt"> | undefined
  /** What people have said to it before, as far as that holds. */
  readonly answers?: ReadonlyArray<Answered> | undefined
  /** It had started, so neither order nor limits refuse it; `spent` where the store knows. */
  readonly started?: "spent" | "unknown" | undefined
  /** It runs nothing any more, and ends at its place as it is decided, or as its tool says. */
  readonly recalled?: Recalled | undefined
}

/** What gates and approvers have said of a call. */
export interface Consent {
  /** Gates of the host that were asked about it, and are notified how it ends. */
  readonly askedGates?: Set<Gate>
  /** What the host's gates said before anything was reserved. */
  readonly guarded?: ToolRefusal | undefined
  /** It is refused before its turn comes: an approver denied it, or there is none. */
  readonly refused?: ToolRefusal
  /** Approved: no further request is made. */
  readonly approved?: true
  /** The standing permission that let it through. */
  readonly grant?: Grant | undefined
  /** The answer to its own request made that permission. */
  readonly isOwnGrant?: boolean
  /** What was approved for this call alone. */
  readonly allowedOnce?: Given
  /** The preview that approvers saw. */
  readonly shown?: Shown | undefined
  /** Its targets are no longer those that it was judged by. */
  readonly moved?: Moved
  /** It has not started and may be resumed: an answer is still to come, or its host stops. */
  readonly isSuspended?: true
}

/** How a call stands to equal calls, and who waits for it. */
export interface Peers {
  /** An equal call has nothing for this one: it runs itself. */
  readonly runsItself?: true | undefined
  /** Approvers are asked whether it may have an equal call's outcome. */
  readonly isSharing?: true | undefined
  /** Approvers are asked whether an equal call may have its outcome: that is kept, since it may end meanwhile. */
  readonly isWanted?: true
  /** Calls that joined this one. */
  readonly followers?: Array<Call> | undefined
  /** Called once it has its outcome and its permits are given back, or once it waits for another call. */
  readonly afterwards?: Set<() => void> | undefined
}

/** What is kept of a call so that its writes can be undone. */
export interface Undo {
  /** What its writes replace is kept. */
  readonly isCheckpointed?: true
  /** It wrote without announcing it. */
  readonly isUnannounced?: true
  /** The checkpoint that says it may change things, without saying which. */
  readonly note?: Checkpoint
}

const nothing = {}

/** Who moves a call on. */
export interface Driver {
  /** The running call whose handler makes its calls. */
  readonly parent: Call | undefined
  readonly agent: Agent
  /** Where successes are remembered. */
  readonly history: WaveHistory
  /** A model is told of the outcomes. */
  readonly told: boolean
  /** Writers of the wave run side by side. */
  readonly isParallel: boolean
  /** Epoch milliseconds at which the calls were handed over. */
  readonly begunAt: number
  /** Where facts are reported; absent where nobody observes. */
  readonly facts: Reporter | undefined
  readonly now: () => number
  /** Ends a call, also one that runs. */
  readonly end: (call: Call, end: CallEnd.End) => void
  /** Gives a call its outcome; `fiber` is there if its handler still runs. */
  readonly settle: (call: Call, end: CallEnd.End, fiber?: Fiber.Fiber<unknown, unknown>) => void
  /** Dispatches a call anew that had joined another one. */
  readonly redispatch: (call: Call) => void
}

/** One call of a wave on its way. */
export class Call implements Ticket {
  readonly driver: Driver
  readonly index: number
  readonly call: Received

  phase: Phase = phases.arrived
  /** How it ends, where that is known before its turn comes: refused on Arrival, cancelled, behind the end of its wave. */
  decided: CallEnd.End | undefined
  tool: RegisteredTool | undefined
  rules: ToolRules | undefined
  gateCall: GateCall | undefined
  /** The model asked to be called again. */
  heartbeat = false
  /** Counted in the turn's number of calls. */
  counted = false
  reservation: Reservation | undefined
  /** What runs it on while it waits; of one that runs, the question about its write. */
  waiting: Fiber.Fiber<unknown> | undefined

  // its permits
  resources: ReadonlyArray<string> = []
  permits: ReadonlyArray<Permit> = []
  held = 0
  state: Ticket["state"] = "new"
  children: Set<Ticket> | undefined

  // what only few calls have: the same empty value until then

  /** What gates and approvers have said of it. */
  consent: Consent = nothing
  /** How it stands to equal calls, and who waits for it. */
  peers: Peers = nothing
  /** What is kept so that its writes can be undone. */
  undo: Undo = nothing
  /** Who observes it. */
  observed: Observed = nothing
  /** What a record of an earlier life of it says. */
  declare resumed?: Resumed

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

  /** A model is told of its outcome. */
  get told(): boolean {
    return this.driver.told
  }

  /** The class whose permits it takes, if not its tool's: its wave is run in parallel. */
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

  /** Its handler was started, in this life or in an earlier one. */
  get hasStarted(): boolean {
    return this.attempt !== undefined || this.resumed?.started !== undefined
  }

  /** For permits: the call whose outcome it waits for. */
  get joined(): Call | undefined {
    const { phase } = this
    return phase._tag === "Joined" || phase._tag === "Doubted" ? phase.leader : undefined
  }

  /** Its own end: its attempt's, unless the call has its outcome. */
  ended(end: CallEnd.End, fiber: Fiber.Fiber<unknown, unknown> | undefined): void {
    this.driver.settle(this, end, fiber)
  }

  /** Its handler starts: an attempt begins, or what an earlier one gave is taken for its result. */
  began(attempt: number, limitMillis: number): void {
    const { driver, gateCall, resumed } = this
    const { facts } = driver
    if (facts === undefined) return
    const at = driver.now()
    if (resumed?.recalled === undefined) facts.report(this.start("Started", at, attempt, limitMillis), this)
    else facts.report({ _tag: "Recalled", at, attempt, args: gateCall?.args }, this)
  }

  /** What is reported of its start. */
  start<T extends "Starting" | "Started">(_tag: T, at: number, attempt: number, limitMillis: number) {
    const { consent: { approved, grant }, gateCall, reservation, resumed, tool } = this
    return {
      _tag,
      at,
      attempt,
      limitMillis,
      mutates: tool!.readOnly !== true,
      allowedBy: grant?.id ?? (approved === true ? "answer" : "policy"),
      input: gateCall!,
      idempotencyKey: resumed?.idempotencyKey,
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

  /** Calls back those who wait until it writes nothing any more. */
  over(): void {
    const { afterwards } = this.peers
    if (afterwards === undefined) return
    this.peers = { ...this.peers, afterwards: undefined }
    for (const run of afterwards) run()
  }

  /** Lets go of what a call with an outcome does not need: waves may be long. */
  forget(): void {
    // the first one stays whole, as long as its wave is the last
    if (this.index === 0) return
    if (this.phase._tag === "Settled") this.phase.attempt = undefined
    this.gateCall = undefined
    this.rules = undefined
    this.reservation = undefined
  }
}
