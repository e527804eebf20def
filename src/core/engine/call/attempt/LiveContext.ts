/**
 * The `ToolContext` of a running call.
 *
 * Its members are getters, created on access: most handlers use none of them.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import type * as Executor from "../../../contract/Executor.ts"
import * as ToolContext from "../../../contract/ToolContext.ts"
import type { Report } from "../../../facts/Fact.ts"
import { isCustomType, reservedTypes } from "../../../facts/ToolEvent.ts"
import type { GateCall } from "../../../gates/Gate.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import { ArtifactError } from "../../../output/ArtifactStore.ts"
import type { StateStoreError } from "../../../store/StateStore.ts"
import type { Grant } from "../../../vocabulary/Grant.ts"
import * as IdempotencyKey from "../../data/IdempotencyKey.ts"
import type { ProcessState } from "../../state/State.ts"
import * as StandingGrants from "../authorize/StandingGrants.ts"
import type { Call } from "../Call.ts"
import { type Above, Caller, type Engine } from "../Engine.ts"
import type { WaveHost } from "../WaveHost.ts"
import type { Attempt, Surroundings } from "./Attempt.ts"
import { NestedClock } from "./NestedClock.ts"
import { RunningApprovals } from "./RunningApprovals.ts"
import { Writes } from "./Writes.ts"

type Service = ToolContext.Service

/** The `ToolContext` of a running call. */
export class LiveContext extends Caller implements Service, Surroundings {
  /** The call that the handler works for; a call made by the handler has it as its parent. */
  readonly call: Call
  private readonly wave: WaveHost
  private readonly attempt: Attempt
  declare private made?: Writes
  declare private asked?: RunningApprovals
  declare private nested?: NestedClock
  declare private handle?: Executor.Service
  declare private standing?: ReadonlyArray<Grant> | StateStoreError

  constructor(wave: WaveHost, call: Call, attempt: Attempt) {
    super()
    this.wave = wave
    this.call = call
    this.attempt = attempt
  }

  get engine(): Engine {
    return this.wave.engine
  }

  get state(): ProcessState {
    return this.wave.process
  }

  get above(): Above {
    return {
      hub: this.wave.reporter.hub,
      meta: this.meta,
      people: this.wave.process.people,
      session: this.wave.process.session
    }
  }

  /** All services that the handler finds. */
  get services(): Context.Context<never> {
    const services = Context.add(this.wave.servicesOf(this.call.tool!), ToolContext.ToolContext, this)
    const span = this.call.trace?.span
    return span === undefined ? services : Context.add(services, Tracer.ParentSpan, span)
  }

  get isOver(): boolean {
    return this.attempt.isOver
  }

  get clock(): NestedClock {
    return this.nested ??= new NestedClock(this.attempt, this.state.budget)
  }

  atEnd(run: () => void): () => void {
    return this.attempt.atEnd(run)
  }

  get callId(): string {
    return this.call.call.id
  }

  get tool(): string {
    return this.call.call.name
  }

  get principal(): string {
    return this.engine.principal
  }

  get agentPath(): ReadonlyArray<string> {
    return this.call.agent.agentPath
  }

  get batch(): string {
    return this.state.batch.id
  }

  get process(): string {
    return this.state.id
  }

  get idempotencyKey(): string {
    const { call, wave } = this
    return call.earlierKey ?? IdempotencyKey.of(call.gateCall!.principal, wave.origin, call)
  }

  /** The call's id, as `Toolkit.handle` passes it to handlers. */
  get toolCallId(): string {
    return this.call.call.id
  }

  /** Emits a preliminary result, encoded like the final one. */
  get preliminary(): (value: unknown) => Effect.Effect<void> {
    return (value) =>
      Effect.flatMap(Effect.orElseSucceed(this.call.tool!.encode(value), () => null), (it) => this.partial(it))
  }

  get meta(): Service["meta"] {
    return this.state.meta
  }

  get deadline(): number {
    return this.attempt.deadline
  }

  get signal(): AbortSignal {
    return this.attempt.signal
  }

  get executor(): Executor.Service {
    return this.handle ??= this.engine.handleFor(this)
  }

  get progress(): Service["progress"] {
    return (report) => this.report({ _tag: "ToolProgress", ...defined(report) })
  }

  get status(): Service["status"] {
    return (status, message) => this.report({ _tag: "ToolStatus", status, ...defined({ message }) })
  }

  get log(): Service["log"] {
    return (level, message, data) => this.report({ _tag: "ToolLog", level, message, ...defined({ data }) })
  }

  get options(): Service["options"] {
    return (options) => this.report({ _tag: "ToolOptions", options })
  }

  get partial(): Service["partial"] {
    return (value) => this.report({ _tag: "ToolPartialResult", value })
  }

  get emit(): Service["emit"] {
    return (type, data) => {
      if (!isCustomType(type)) {
        const taken = Array.from(reservedTypes).join(", ")
        throw new RangeError(
          `ToolContext.emit: the type is "${type}", expected 1 to 64 of a-z 0-9 _ and none of ${taken}`
        )
      }
      return this.report({ _tag: "ToolCustom", type, data })
    }
  }

  get isResumed(): boolean {
    return this.call.hasRun && this.call.tool!.continues !== undefined
  }

  get suspend(): Service["suspend"] {
    return (reason) =>
      Effect.suspend(() => {
        const { attempt, call } = this
        if (!attempt.isOver && call.tool!.continues !== undefined) {
          call.consent = { ...call.consent, isSuspended: true }
        }
        attempt.stop({ _tag: "Cancelled", started: true, reason })
        return Effect.never
      })
  }

  get waits(): Service["waits"] {
    return (isWaiting) => Effect.sync(() => this.attempt.waits(isWaiting))
  }

  get isSuspending(): boolean {
    const { call, wave } = this
    return call.consent.isSuspended === true || wave.isSuspended(call)
  }

  get grant(): Service["grant"] {
    const { allowedOnce, grant } = this.call.consent
    return grant ?? allowedOnce
  }

  get answer(): Service["answer"] {
    return this.call.consent.answer
  }

  get hides(): Service["hides"] {
    return (text) => this.call.agent.permissions.hides?.({ text }) === true
  }

  get permits(): Service["permits"] {
    return (target, options) =>
      Effect.suspend(() => {
        const { attempt, call } = this
        const { gateCall, rules } = call
        if (attempt.isOver || gateCall === undefined) return Effect.succeed("deny" as const)
        const about = typeof target === "string" ? { text: target } : target
        const { permissions } = call.agent
        const permit = Permissions.permit(permissions, gateCall, rules?.consent, about, options?.within ?? about.text)
        if (permit._tag !== "Ask") return Effect.succeed(permit._tag === "Allow" ? "allow" as const : "deny" as const)
        if (permit.isAnswered && this.isLetThrough(gateCall)) return Effect.succeed("allow" as const)
        return Effect.map(this.grants, (grants) => {
          const grant = StandingGrants.grantOf(this.wave, call, permit.asks, [about], grants, this.wave.now())
          return grant === undefined ? "ask" as const : "allow" as const
        })
      })
  }

  /** Whether the call would pass now: approved and not revoked, or without need of approval. */
  private isLetThrough(gateCall: GateCall): boolean {
    const { agent, consent: { approved, grant, moved }, rules } = this.call
    if (grant !== undefined) return !this.engine.revoked.has(grant.id)
    return (approved !== undefined && moved === undefined) ||
      Permissions.asks(agent.permissions, gateCall, rules?.consent) === undefined
  }

  /** The grants, read once for all targets of the call. */
  private get grants(): Effect.Effect<ReadonlyArray<Grant> | StateStoreError> {
    if (this.standing !== undefined) return Effect.succeed(this.standing)
    const { engine, patience } = this.wave
    const known = engine.store.grants(engine.principal, this.wave.now(), patience)
    return Effect.map(known, (grants) => {
      if ("operation" in grants) this.wave.unanswered(this.call, grants)
      return this.standing = grants
    })
  }

  get commit(): Service["commit"] {
    return (write) => this.attempt.commit(this.writes.prepared(write), () => this.lateWrite())
  }

  get confirmWrite(): Service["confirmWrite"] {
    return (preview) => this.writes.confirm(preview)
  }

  get confirmTarget(): Service["confirmTarget"] {
    return (target) => this.approvals.confirm(target)
  }

  private get approvals(): RunningApprovals {
    return this.asked ??= new RunningApprovals(this.wave, this.call, this.attempt)
  }

  private get writes(): Writes {
    return this.made ??= new Writes(this.wave, this.call, this.attempt, this.approvals)
  }

  get artifact(): Service["artifact"] {
    return (payload) =>
      Effect.suspend(() => {
        const { artifacts, principal } = this.engine
        if (!this.isLive() || artifacts === undefined) return Effect.succeedNone
        return Effect.catchCause(
          Effect.asSome(Effect.suspend(() => artifacts.put({ principal, batch: this.state.batch.id }, payload))),
          () => Effect.succeedNone
        )
      })
  }

  get readArtifact(): Service["readArtifact"] {
    return (id, range) =>
      Effect.suspend(() => {
        const { artifacts, principal } = this.engine
        return artifacts === undefined || this.isOver
          ? new ArtifactError({ reason: "NotFound", id })
          : artifacts.read({ principal, batch: this.state.batch.id }, id, range)
      })
  }

  private isLive(): boolean {
    const live = this.attempt.report()
    if (!live) this.lateWrite()
    return live
  }

  /** Counts and reports something that came after the outcome and was blocked. */
  private lateWrite(): void {
    this.engine.orphans.lateWrite()
    this.wave.facts?.report({ _tag: "LateWriteBlocked", at: this.wave.now() }, this.call)
  }

  private report(report: Report): Effect.Effect<void> {
    return Effect.sync(() => {
      if (!this.isLive() || !this.engine.toolEvents) return
      this.wave.facts?.report({ _tag: "Reported", at: this.wave.now(), report }, this.call)
    })
  }
}

/** Drops undefined fields: events must not carry such keys. */
const defined = <A extends object>(fields: A): { readonly [K in keyof A]?: Exclude<A[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    readonly [K in keyof A]?: Exclude<A[K], undefined>
  }
