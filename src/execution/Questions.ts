/**
 * What is asked of people about the calls of one wave, and what becomes of it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Approvals from "../policy/Approvals.ts"
import type { Preview, Resolution } from "../policy/Approvals.ts"
import type { GateCall } from "../policy/Gate.ts"
import type * as Permissions from "../policy/Permissions.ts"
import type { Grant } from "../store/Grant.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { End } from "./Attempt.ts"
import type { CallState } from "./CallState.ts"
import * as ConfirmedWrites from "./ConfirmedWrites.ts"
import { turn } from "./Ends.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { Ledger } from "./Ledger.ts"
import * as Revisions from "./Revisions.ts"
import * as Stages from "./Stages.ts"
import type { Waits } from "./Waits.ts"
import type { WaveEvents } from "./WaveEvents.ts"

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
 * What is asked about a call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Question extends Permissions.Asks {
  readonly preview?: Preview | undefined
  /** What it is about, if not what the call was judged by. */
  readonly targets?: GateCall["targets"]
}

/**
 * What the questions are asked for.
 *
 * @category models
 * @since 0.1.0
 */
export interface Asker {
  readonly all: ReadonlyArray<CallState>
  readonly now: () => number
  readonly events: WaveEvents
  readonly settle: (call: CallState, end: End) => void
  readonly detach: (effect: Effect.Effect<void>) => void
  /** A question is open: it ends with the turn. */
  readonly asked: () => void
  /** No question is open any more. */
  readonly answered: () => void
  /** A person has allowed the call, perhaps with other arguments. */
  readonly approved: (call: CallState, edited: { readonly params: unknown } | undefined) => void
}

/**
 * Finds the last earlier call of a wave that is not over and writes to what a call
 * writes to, as far as they say so.
 *
 * @category getters
 * @since 0.1.0
 */
export const writerBefore = (all: ReadonlyArray<CallState>, call: CallState): CallState | undefined => {
  const own = call.gateCall!.targets
  // the nearest: of many that write to the same each waits for the one before it
  for (let index = call.index - 1; index >= 0; index--) {
    const { decided, gateCall, outcome, tool } = all[index]!
    const mayWrite = outcome === undefined && decided === undefined && gateCall !== undefined &&
      tool?.preview !== undefined
    if (!mayWrite) continue
    const { targets } = gateCall
    const isSame = own === undefined || targets === undefined ||
      targets.some(({ text }) => own.some((it) => it.text === text))
    if (isSame) return all[index]
  }
  return undefined
}

/** A question that is open; its id, once the request is made. */
interface Asking {
  id: string | undefined
  readonly withdraw: () => void
}

const answerOf = (resolution: Resolution): string => {
  switch (resolution._tag) {
    case "Approved":
      return resolution.grant?.answer ?? "ApproveOnce"
    case "Denied":
      return resolution.by
    case "Suspended":
      return "suspended"
  }
}

type Approved = Extract<Resolution, { readonly _tag: "Approved" }>

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
  private readonly waits: Waits
  private readonly wave: Asker

  constructor(engine: Engine, process: ProcessState, ledger: Ledger, waits: Waits, wave: Asker) {
    this.engine = engine
    this.process = process
    this.ledger = ledger
    this.waits = waits
    this.wave = wave
  }

  /** Gate 12: lets the call through by a standing permission, or asks; true if it goes on to its permits. */
  authorize(call: CallState, question: Permissions.Asks): boolean | Effect.Effect<boolean> {
    const known = this.grantFor(call, question)
    if (!("wait" in known)) return this.askUnless(call, question, known.grant)
    let grant: Grant | undefined
    const asked = Effect.map(known.wait, (it) => {
      grant = it
    })
    return Effect.map(this.waits.wait([call], asked), () => this.askUnless(call, question, grant))
  }

  private askUnless(call: CallState, question: Permissions.Asks, grant: Grant | undefined): boolean {
    if (call.decided !== undefined) this.wave.settle(call, call.decided)
    if (call.outcome !== undefined) return false
    call.grant = grant
    if (grant !== undefined) return true
    if (call.tool!.preview === undefined || this.engine.approvals === undefined) this.askNow(call, question)
    else {
      const earlier = writerBefore(this.wave.all, call)
      if (earlier === undefined) this.wave.detach(Effect.uninterruptible(this.askWithPreview(call, question)))
      else {
        // what it would write is known when that has written
        call.isDeferred = true
        ;(earlier.afterwards ??= []).push(() => this.askAgain(call, question))
      }
    }
    return false
  }

  private askAgain(call: CallState, question: Permissions.Asks): void {
    if (call.outcome !== undefined) return
    call.isDeferred = false
    // what came before may have blocked its tool, or put it out of order
    const end = Stages.recheck(this.engine, this.process, call, undefined, this.wave.now())
    if (end !== undefined) return this.wave.settle(call, end)
    const enter = (isAllowed: boolean) => {
      if (isAllowed) this.wave.approved(call, undefined)
    }
    const allowed = this.authorize(call, question)
    if (typeof allowed === "boolean") enter(allowed)
    else this.wave.detach(Effect.uninterruptible(Effect.map(allowed, enter)))
  }

  /** Others go on meanwhile; once it is there the call may be cancelled, or the turn over. */
  private askWithPreview(call: CallState, question: Permissions.Asks): Effect.Effect<void> {
    let found: ConfirmedWrites.Previewed | undefined
    const asked = Effect.map(this.previewOf(call), (it) => {
      found = it
    })
    return Effect.map(this.waits.wait([call], asked), () => {
      if (call.outcome !== undefined) return
      const end = call.decided ?? turn(this.process, call, this.wave.now())
      if (end !== undefined) return this.wave.settle(call, end)
      // a remembered answer may have come meanwhile
      const known = this.grantFor(call, question)
      if ("grant" in known && known.grant !== undefined) {
        call.grant = known.grant
        return this.wave.approved(call, undefined)
      }
      call.shown = found?.shown
      if (found?.isNothing === true) {
        call.approved = true
        return this.wave.approved(call, undefined)
      }
      this.askNow(call, { ...question, preview: found?.preview })
    })
  }

  /** What the call would write, for people to see. */
  previewOf(call: CallState): Effect.Effect<ConfirmedWrites.Previewed> {
    return ConfirmedWrites.preview(this.engine, call, Math.max(0, this.process.budget.left(this.wave.now())))
  }

  private askNow(call: CallState, question: Question): void {
    this.ask(call, question, (resolution) => {
      if (call.outcome !== undefined) return
      if (resolution._tag === "Denied") {
        return this.wave.settle(call, { _tag: "Denied", reason: refusalOf(resolution) })
      }
      if (resolution._tag === "Suspended") {
        return this.wave.settle(call, { _tag: "Cancelled", started: false, reason: resolution.reason })
      }
      this.approve(call, resolution)
      this.wave.approved(call, resolution.edited)
    })
  }

  /**
   * Asks about a write of a call that runs. It gives its permits up and its time
   * stands still; it goes on once it holds them again, or not at all.
   */
  confirm(call: CallState, question: Question, goOn: () => void): void {
    const { pools } = this.engine
    const attempt = call.attempt!
    pools.releasePermits(call)
    // whoever got the permits may have ended this call
    if (attempt.isOver) return
    attempt.pause()
    this.ask(call, question, (resolution) => {
      attempt.resume()
      if (resolution._tag === "Denied") {
        const { by, reason } = resolution
        const why = reason === undefined ? {} : { reason }
        return attempt.stop({ _tag: "Denied", reason: { _tag: "WriteDenied", by, ...why } })
      }
      if (resolution._tag === "Suspended") {
        return attempt.stop({ _tag: "Cancelled", started: true, reason: resolution.reason })
      }
      this.remember(resolution)
      this.wave.detach(Effect.map(pools.reenter(call), goOn))
    })
  }

  /** The standing permission that lets a call through, if there is one: at once, or by an effect. */
  grantFor(
    call: CallState,
    question: Permissions.Asks,
    targets = call.gateCall!.targets
  ): { readonly grant: Grant | undefined } | { readonly wait: Effect.Effect<Grant | undefined> } {
    const pick = (grants: ReadonlyArray<Grant> | StateStoreError) =>
      Stages.grantFor(this.engine, call, question, targets, grants, this.wave.now())
    const known = this.ledger.grants(this.engine.principal)
    return "wait" in known ? { wait: Effect.map(known.wait, pick) } : { grant: pick(known) }
  }

  /** Asks about a call; without anybody there, the answer is no at once. */
  ask(
    call: CallState,
    question: Question,
    onEnd: (
      resolution: Resolution
    ) => void
  ): void {
    const { agentPath, args, batch, principal, process, tool: { class: kind, name: tool } } = call.gateCall!
    const { id: callId } = call.call
    const { targets = call.gateCall!.targets } = question
    // what is not known, or is about nothing that its tool names, cannot be remembered: it would be everything
    const isKnown = targets !== undefined && (targets.length > 0 || !call.tool!.declaresTargets)
    const remember = isKnown ? question.remember : "call"
    const isRunning = call.attempt !== undefined
    const people = this.engine.approvals
    const nobody = { _tag: "Denied", by: "noApprover", reason: question.why } as const
    if (people === undefined) return onEnd(nobody)
    this.open++
    this.process.budget.ask(1, this.wave.now())
    this.wave.asked()
    const asking: Asking = { id: undefined, withdraw: () => fiber.interruptUnsafe() }
    call.asking = asking
    const about: Approvals.Question = {
      preview: undefined,
      ...question,
      remember,
      agentPath,
      args,
      batch,
      callId,
      class: kind,
      isRunning,
      principal,
      process,
      revision: Revisions.of(call.tool!),
      targets: targets ?? [],
      tool
    }
    const diff = question.preview?._tag === "Diff" ? { diff: question.preview.diff } : {}
    const asked = Effect.flatMap(people.request(about), (request) => {
      if (request === undefined) return Effect.succeed(nobody)
      asking.id = request.id
      this.wave.events.publish({
        _tag: "ToolApprovalRequested",
        callId,
        tool,
        index: call.index,
        at: this.wave.now(),
        requestId: request.id,
        why: question.why,
        ...diff
      })
      return people.ask(request)
    })
    const fiber = Effect.runForkWith(this.engine.context)(asked)
    fiber.addObserver((exit) => {
      if (call.asking !== asking || exit._tag === "Failure") return
      const resolution = exit.value
      this.end(call, answerOf(resolution))
      onEnd(resolution)
      this.tell()
    })
  }

  /** Notes that a person has allowed a call, and what else they have allowed with it. */
  approve(call: CallState, resolution: Approved): void {
    call.approved = true
    call.grant = resolution.grant
    call.isOwnGrant = resolution.isOwn
    // what covers it was said to another diff: nobody has looked at this one
    if (!resolution.isOwn) call.shown = undefined
    this.remember(resolution)
  }

  /** Keeps what a person said to more than this one question. */
  remember({ grant, isOwn }: Approved): void {
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
    const { withdraw } = call.asking
    this.end(call, "withdrawn")
    withdraw()
    this.tell()
  }

  /** The question is over, however: the turn's clock may go on. */
  private end(call: CallState, answer: string): void {
    const requestId = call.asking!.id
    call.asking = undefined
    this.open--
    const now = this.wave.now()
    this.process.budget.ask(-1, now)
    if (requestId === undefined) return
    const of = { callId: call.call.id, tool: call.call.name, index: call.index, at: now }
    this.wave.events.publish({ _tag: "ToolApprovalResolved", ...of, requestId, answer })
  }

  /** People are asked at this moment. */
  get isOpen(): boolean {
    return this.open > 0
  }

  private tell(): void {
    if (this.open > 0) return
    this.onAnswered?.()
    this.wave.answered()
  }
}
