/** State shared by the calls of one wave. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as CallLog from "../../../internal/callLog.ts"
import type { Deadlines } from "../../../internal/deadlines.ts"
import { isDone } from "../../../internal/exitOf.ts"
import type { Mode } from "../../contract/ToolProcess.ts"
import type { Of, Origin } from "../../facts/Fact.ts"
import type { ClaimOptions } from "../../gates/Dedupe.ts"
import type { GateCall } from "../../gates/Gate.ts"
import * as HostGates from "../../gates/HostGates.ts"
import type { RuleScope } from "../../gates/Rules.ts"
import { type OutputPolicy, type Room, unbounded } from "../../output/OutputPolicy.ts"
import type { WaveHistory } from "../../rules/RuleHistory.ts"
import type { RuleSet } from "../../rules/RuleSet.ts"
import type { Claim } from "../../store/Claims.ts"
import type { Term } from "../../store/Journal.ts"
import type { StateStoreError } from "../../store/StateStore.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { ToolRefusal } from "../../vocabulary/ToolRefusal.ts"
import { Principal } from "../data/Principal.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import { Reporter } from "../report/Reporter.ts"
import { type ProcessState, scopeOf } from "../state/State.ts"
import * as Agents from "./Agents.ts"
import type * as UnseenText from "./arrive/UnseenText.ts"
import type { Host } from "./attempt/Attempt.ts"
import type { Call } from "./Call.ts"
import type { Caller, Engine } from "./Engine.ts"
import { StopPlace } from "./StopPlace.ts"
import type { WaveOptions } from "./WaveOptions.ts"
import type { Restore } from "./WaveWaits.ts"
import { Waits } from "./WaveWaits.ts"

/** Is notified about the progress of a wave's calls. */
export interface Watcher {
  /** Approval is requested. */
  readonly asked: () => void
  /** A call has its outcome; its permits are not released yet. */
  readonly settled: (call: Call) => void
  /** Permits were released, or a handler that outlived its outcome has ended. */
  readonly freed: () => void
}

/** What the claims of all calls of one tool have in common. */
export interface ToolClaims {
  /** What the rules claim. */
  readonly limits: ReadonlyArray<Claim> | ToolRefusal
  /** What dedupe keys depend on, except for calls that are awaited or run again. */
  readonly options: ClaimOptions
}

/** The name of a wave among all waves of all lives, as its records know it. */
export const messageOf = (session: string, { process, wave }: Pick<Origin, "process" | "wave">, begunAt: number) =>
  `${session} ${wave} ${begunAt} ${process}`

const noClaims = { of: undefined, byTool: new Map<string, ToolClaims>() }

/** Counters and flags of a wave. */
export interface Tally {
  /** Calls without an outcome. */
  unsettled: number
  /** Handlers that outlived their outcome. */
  lingering: number
  /** A call has reserved something in its batch. */
  hasReserved: boolean
  /** A call may be resumed. */
  hasSuspended: boolean
  /** The caller was interrupted: nothing receives the outcomes. */
  isAborted: boolean
  /** A call is on record, or its process continues after a crash: its end must be on record before it is reported. */
  isWritten: boolean
}

/** Values computed once for all calls of a wave. */
interface Caches {
  /** The claims of each tool's calls, for one version of the rules. */
  claims: { readonly of: RuleSet | undefined; readonly byTool: Map<string, ToolClaims> }
  /** The names of the tools that the agent sees; set once a call names an unknown tool. */
  toolNames: ReadonlyArray<string> | undefined
}

export class WaveHost implements Host, HostGates.Reporter {
  readonly engine: Engine
  readonly process: ProcessState
  readonly options: WaveOptions
  readonly watcher: Watcher
  /** The caller's context, with the principal of the executor. */
  readonly context: Context.Context<never>
  readonly clock: Clock.Clock
  readonly reporter: Reporter
  /** What rules remember of the wave. */
  readonly history: WaveHistory
  /** The handler that makes the calls. */
  readonly caller: Caller | undefined
  /** The host's gates, and built-in ones of the same kind, that apply to some tool of the registry. */
  readonly gates: HostGates.HostGates
  /** In stop mode: where the wave, or its step, ends. */
  readonly stop: StopPlace
  /** Epoch milliseconds at which it was submitted. */
  readonly begunAt: number
  /**
   * The journal's term at that time; absent if no other process can end it. A process that was frozen since may have a
   * new one, but not for calls that another process has run meanwhile.
   */
  readonly term: Term | undefined
  calls: ReadonlyArray<Call> = []
  readonly tally: Tally
  /** The waits of its calls. */
  readonly waits: Waits
  /** What a shadow policy would decide of calls whose records have not begun; absent: there is none, or they have. */
  early: Array<readonly [call: Call, fact: Of<"Shadowed">]> | undefined
  /** Names the model message whose calls it has: what comes from an earlier life of the wave, or one of its step. */
  message: string
  readonly caches: Caches = { claims: noClaims, toolNames: undefined }

  constructor(
    engine: Engine,
    process: ProcessState,
    options: WaveOptions,
    watcher: Watcher,
    caller: Caller | undefined,
    agentPath: ReadonlyArray<string>,
    context: Context.Context<never>,
    restore: Restore
  ) {
    const { principal } = engine
    this.engine = engine
    this.process = process
    this.options = options
    this.watcher = watcher
    this.caller = caller
    this.gates = engine.gates(engine.handlers.current())
    const own = Context.get(context, Principal) === principal ? context : Context.add(context, Principal, principal)
    this.clock = Context.get(own, Clock.Clock)
    this.begunAt = this.clock.currentTimeMillisUnsafe()
    this.term = engine.journal?.driver.term?.(principal)
    this.stop = options.step?.stop ?? (engine.onExecutionError === "stop" ? new StopPlace("stop") : StopPlace.none)
    const looksFurther = engine.rules.current().remembers.length > 0
    this.history = process.history.begin(looksFurther ? engine.sessions.placeOf(this.begunAt) : undefined)
    this.early = engine.shadow === undefined ? undefined : []
    this.tally = {
      unsettled: 0,
      lingering: 0,
      hasReserved: false,
      hasSuspended: false,
      isAborted: false,
      isWritten: engine.journal !== undefined && process.isNamed
    }
    const origin = { agentPath, batch: process.batch.id, process: process.id, wave: ++process.lastWave }
    const message = messageOf(engine.store.session, origin, this.begunAt)
    this.message = options.step === undefined ? message : options.step.message.name ??= message
    const trace = engine.telemetry?.begin(own, principal, origin)
    this.reporter = new Reporter(options.hub, origin, engine.journal, trace, engine.handlers.current)
    if (options.resume !== undefined) this.reporter.hold()
    this.context = trace?.context ?? own
    this.waits = new Waits(this.context, this.clock, restore)
  }

  /** How it is split into runs. */
  get mode(): Mode {
    return this.options.mode ?? this.engine.mode
  }

  /** The scope in which the rules count. */
  get scope(): RuleScope {
    return scopeOf(this.process, this.engine)
  }

  /** Where facts are reported; absent if nothing observes them, so that they are not even made. */
  get facts(): Reporter | undefined {
    return this.reporter.isObserved ? this.reporter : undefined
  }

  get origin(): Origin {
    return this.reporter.origin
  }

  get deadlines(): Deadlines {
    return this.waits.deadlines
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Runs an effect in the background. */
  detach(effect: Effect.Effect<void>): Fiber.Fiber<void> {
    return Effect.runForkWith(this.context)(effect)
  }

  /** Completes an effect in the background, unless it is done already. */
  note(noted: Effect.Effect<void>): void {
    if (!isDone(noted)) this.detach(noted)
  }

  /** Logs what happened to a call for operators, with the whole cause. */
  log(call: Call, message: string, cause: Cause.Cause<unknown>): void {
    const { call: { id: callId, name: tool, params }, gateCall } = call
    const secrets = call.tool === undefined
      ? undefined
      : { redactor: call.tool.redactor, args: gateCall?.args ?? params }
    this.detach(CallLog.log("Warn", message, cause, { callId, tool, principal: this.engine.principal, secrets }))
  }

  /** Logs that the store had no answer for a call. */
  unanswered(call: Call, error: StateStoreError): void {
    const what = this.engine.store.outages.failed(error.message, this.now())
    if (what !== undefined) this.log(call, what, Cause.fail(error))
  }

  threw(gate: string, call: GateCall, defect: unknown): void {
    this.detach(CallLog.log("Warn", `The gate ${gate} failed`, Cause.die(defect), HostGates.about(call)))
  }

  /** Milliseconds that a call waits for the state store; at most what is left of its turn. */
  get patience(): number {
    return this.patienceAt(this.now())
  }

  /** The same at a given time. */
  patienceAt(now: number): number {
    return Math.min(this.engine.patienceMillis, Math.max(0, this.process.budget.left(now)))
  }

  /** Milliseconds that calls of the tool may run, in any wave. */
  toolLimit(tool: RegisteredTool): number {
    return tool.timeoutMillis ?? this.engine.executionMillis
  }

  /** Milliseconds that a call of this wave may run. */
  limitOf(tool: RegisteredTool): number {
    return Math.min(this.toolLimit(tool), this.options.timeoutMillis)
  }

  /**
   * Whether a call that is being cancelled may be resumed: it is on record, its host is stopping, and it has not
   * started or its handler can continue it. A call whose record has not been read or made may be submitted again, too.
   */
  isSuspended({ attempt, past, phase, record, tool }: Call): boolean {
    if (phase._tag === "Doubted" && phase.isDropped) return false
    const { caller, engine, options, process, tally } = this
    const isResumable = options.resume !== undefined || (engine.journal !== undefined && process.isNamed)
    const isUnread = record === undefined && isResumable && past === undefined
    if ((record === undefined && !isUnread) || (attempt !== undefined && tool?.continues === undefined)) return false
    return caller !== undefined && Agents.isSameTree(engine, caller)
      ? caller.isSuspending
      : tally.isAborted || engine.batches().isOver
  }

  /** The services that a handler of the tool gets. */
  servicesOf(tool: RegisteredTool): Context.Context<never> {
    const { services } = this.engine
    let byTool = services.get(this.context)
    if (byTool === undefined) services.set(this.context, byTool = new WeakMap())
    let found = byTool.get(tool)
    if (found === undefined) byTool.set(tool, found = Context.merge(tool.context, this.context))
    return found
  }

  /** Place of the wave's first call in its step. */
  get offset(): number {
    return this.options.step?.index ?? 0
  }

  outputRoom(): Room {
    return this.options.wholeOutputs ? unbounded : this.engine.output.room(this.process.batch)
  }

  executing(more: number, now: number): void {
    this.process.budget.execute(more, now)
  }

  hold(): number {
    const limit = this.outputRoom().chars
    if (limit === Infinity) return 0
    this.process.batch.outputChars += limit
    return limit
  }

  storeMillis(now: number): number {
    return this.process.budget.limit(TimedPorts.timeoutMillis, now).millis
  }

  get invisible(): UnseenText.Mode {
    return this.engine.invisible
  }

  get commitMillis(): number {
    return this.engine.commitMillis
  }

  get output(): OutputPolicy {
    return this.engine.output
  }

  get owner() {
    return { principal: this.engine.principal, batch: this.process.batch.id }
  }

  get readOn(): string {
    return this.engine.handlers.current().has("read_artifact")
      ? "Read on with read_artifact."
      : "Ask for a smaller part to see more."
  }
}
