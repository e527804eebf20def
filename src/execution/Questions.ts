/**
 * What is asked of people about the calls of one wave, and what becomes of it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Resolution } from "../policy/Approvals.ts"
import type * as Permissions from "../policy/Permissions.ts"
import type { Grant } from "../store/Grant.ts"
import type { ToolEvent } from "../ToolEvent.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { CallState } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { Ledger } from "./Ledger.ts"
import * as Stages from "./Stages.ts"

/**
 * Gives the refusal of a question that was answered with no, or not at all.
 *
 * @category conversions
 * @since 0.1.0
 */
export const refusalOf = (
  { by, reason }: {
    readonly by: Extract<ToolRefusal, { readonly _tag: "PermissionDenied" }>["by"]
    readonly reason?: string | undefined
  }
): ToolRefusal => ({ _tag: "PermissionDenied", by, ...(reason === undefined ? {} : { reason }) })

/**
 * The questions of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Questions {
  private readonly engine: Engine
  private readonly process: ProcessState
  private readonly ledger: Ledger
  private open = 0
  private onAnswered: (() => void) | undefined
  private readonly wave: { readonly now: () => number; readonly publish: (event: ToolEvent) => void }

  constructor(engine: Engine, process: ProcessState, ledger: Ledger, wave: Questions["wave"]) {
    this.engine = engine
    this.process = process
    this.ledger = ledger
    this.wave = wave
  }

  /** The standing permission that lets a call through, if there is one: at once, or by an effect. */
  grantFor(
    call: CallState,
    question: Permissions.Asks
  ): { readonly grant: Grant | undefined } | { readonly wait: Effect.Effect<Grant | undefined> } {
    const pick = (grants: ReadonlyArray<Grant>) => Stages.grantFor(this.engine, call, question, grants, this.wave.now())
    const known = this.ledger.grants(this.engine.principal)
    return "wait" in known ? { wait: Effect.map(known.wait, pick) } : { grant: pick(known) }
  }

  /** Asks about a call; without anybody there, the answer is no at once. */
  ask(
    call: CallState,
    question: Permissions.Asks,
    onEnd: (
      resolution: Resolution | { readonly _tag: "Denied"; readonly by: "noApprover"; readonly reason: string }
    ) => void
  ): void {
    const { approvals } = this.engine
    if (approvals === undefined) return onEnd({ _tag: "Denied", by: "noApprover", reason: question.why })
    const { args, batch, principal, process, targets, tool: { class: kind, name: tool } } = call.gateCall!
    const { id: callId } = call.call
    const { request, withdraw } = approvals.ask(
      { ...question, args, batch, callId, class: kind, principal, process, targets: targets ?? [], tool },
      (resolution) => {
        this.end(call, resolution._tag === "Denied" ? resolution.by : resolution.grant?.answer ?? "ApproveOnce")
        onEnd(resolution)
        this.tell()
      }
    )
    call.asking = { id: request.id, withdraw }
    this.open++
    const now = this.wave.now()
    this.process.budget.ask(1, now)
    const of = { callId, tool, index: call.index, at: now }
    this.wave.publish({ _tag: "ToolApprovalRequested", ...of, requestId: request.id, why: question.why })
  }

  /** Notes that a person has allowed a call, and what else they have allowed with it. */
  approve(call: CallState, { grant, isOwn }: Extract<Resolution, { readonly _tag: "Approved" }>): void {
    call.approved = true
    call.grant = grant
    if (grant !== undefined && isOwn) this.ledger.grant(grant)
  }

  /** Ends when no question of the wave is open. */
  get answered(): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      this.onAnswered = () => {
        this.onAnswered = undefined
        resume(Effect.yieldNow)
      }
      if (this.open === 0) this.onAnswered()
    })
  }

  /** Nobody needs the answer any more. */
  withdraw(call: CallState): void {
    if (call.asking === undefined) return
    call.asking.withdraw()
    this.end(call, "withdrawn")
    this.tell()
  }

  /** The question is over, however: the turn's clock may go on. */
  private end(call: CallState, answer: string): void {
    const requestId = call.asking!.id
    call.asking = undefined
    this.open--
    const now = this.wave.now()
    this.process.budget.ask(-1, now)
    const of = { callId: call.call.id, tool: call.call.name, index: call.index, at: now }
    this.wave.publish({ _tag: "ToolApprovalResolved", ...of, requestId, answer })
    for (const wave of this.process.waves) wave.resumed()
  }

  private tell(): void {
    if (this.open === 0) this.onAnswered?.()
  }
}
