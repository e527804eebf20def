/**
 * Approval requests from inside a running handler, about targets that only the handler knows: files that it is about to
 * write, a host that it wants to reach.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { GateCall } from "../../../gates/Gate.ts"
import type { Target } from "../../../gates/PermissionPattern.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import { type End, refused } from "../../data/CallEnd.ts"
import * as ShadowLook from "../arrive/ShadowLook.ts"
import * as ApprovalRound from "../authorize/ApprovalRound.ts"
import * as StandingGrants from "../authorize/StandingGrants.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"
import { type Attempt, InCommit } from "./Attempt.ts"

/** Why a target may not be touched. */
export interface Refused {
  readonly by: "policy" | Extract<ApprovalRound.Answer, { readonly _tag: "Denied" }>["by"]
  readonly reason?: string | undefined
}

/** What is asked about, and what becomes of a call that is refused. */
export interface Asking {
  readonly targets: ReadonlyArray<Target>
  /** How the call runs, if that matters to the policy here. */
  readonly sandbox: GateCall["sandbox"]
  /** What approvers see. */
  readonly preview?: ApprovalRound.Question["preview"]
  /** The longest that an answer may be remembered for. Default: as the policy says. */
  readonly remember?: "call" | "resources" | undefined
  /** Tells whether there is nothing to ask about. */
  readonly isNothing?: ((call: GateCall) => boolean) | undefined
  /** The end of a call that is refused; by default it continues, and knows. */
  readonly ends?: ((refused: Refused) => End) | undefined
}

/** The approval requests of one running call. */
export class RunningApprovals {
  private readonly wave: WaveHost
  private readonly call: Call
  private readonly attempt: Attempt
  /** One request is pending at a time. */
  private readonly asking = Semaphore.makeUnsafe(1)

  constructor(wave: WaveHost, call: Call, attempt: Attempt) {
    this.wave = wave
    this.call = call
    this.attempt = attempt
  }

  /** Runs what may request approval, one after another. `method` is how handlers know it. */
  inTurn<A, E, R>(method: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const asking = this.asking.withPermits(1)(effect)
    // inside a commit the write has already begun, so a denial could not stop it
    return Effect.flatMap(InCommit, (commit) => commit === undefined ? asking : Effect.die(new Error(inside(method))))
  }

  /** Tells whether one more target may be touched. */
  confirm(target: Target): Effect.Effect<boolean> {
    // the sandbox confines the call, and this is about what lies outside
    const asking: Asking = { targets: [target], sandbox: undefined, remember: "resources" }
    return this.inTurn("confirmTarget", Effect.suspend(() => this.decide(asking)))
  }

  /**
   * Applies the policy to targets, then grants, then requests approval; tells whether they may be touched. An end that
   * `ends` gives stops the call.
   */
  decide(asking: Asking): Effect.Effect<boolean> {
    const { call, wave } = this
    const { permissions } = call.agent
    const { ends, isNothing, preview, sandbox, targets } = asking
    const gateCall = { ...call.gateCall!, targets, sandbox }
    ShadowLook.look(wave, call, gateCall, true)
    const refusal = Permissions.check(permissions, gateCall, wave)
    if (refusal?._tag === "PolicyDenied") {
      return ends === undefined
        ? Effect.succeed(false)
        : this.stop(ends({ by: "policy", reason: refusal.rule }))
    }
    const question = Permissions.asks(permissions, gateCall, call.rules!.consent)
    if (question === undefined || isNothing?.(gateCall) === true) return Effect.succeed(true)
    const remember = question.remember === "call" ? "call" : asking.remember ?? question.remember
    const asks: Permissions.Asks = { ...question, remember }
    return Effect.flatMap(
      StandingGrants.grantFor(wave, call, asks, targets),
      (grant) => grant !== undefined ? Effect.succeed(true) : this.ask({ ...asks, targets, preview }, ends)
    )
  }

  /**
   * Requests approval. Meanwhile the call releases its permits and its clock is paused. It continues only once it holds
   * its permits again, even if its handler stops waiting.
   */
  private ask(question: ApprovalRound.Question, ends: Asking["ends"]): Effect.Effect<boolean> {
    const { attempt, call, wave } = this
    const { pools } = wave.engine
    return Effect.suspend(() => {
      // it may have been stopped during the store look-up
      if (attempt.isOver) return Effect.interrupt
      pools.releasePermits(call)
      // the next holder of the permits may have ended this call
      if (attempt.isOver) return Effect.interrupt
      attempt.pause()
      const asked = Effect.onExit(ApprovalRound.ask(wave, call, question), () => Effect.sync(() => attempt.resume()))
      const reentered = ApprovalRound.withCall(wave, call, Effect.suspend(() => pools.reenter(call)))
      const confirmed = Effect.flatMap(
        ApprovalRound.withCall(wave, call, asked),
        (resolution): Effect.Effect<boolean> => {
          switch (resolution._tag) {
            case "Unrecorded":
              return this.stop(refused({ _tag: "StoreUnavailable", operation: "journal" }))
            case "Suspended":
              return this.stop({ _tag: "Cancelled", started: true, reason: resolution.reason })
            case "Denied":
              return ends === undefined ? Effect.as(reentered, false) : this.stop(ends(resolution))
            case "Allowed":
            case "Approved":
              return Effect.as(reentered, true)
          }
        }
      )
      // a handler that stops waiting continues like any other: with all its permits
      return Effect.onInterrupt(confirmed, () => attempt.isOver ? Effect.void : Effect.ignoreCause(reentered))
    })
  }

  private stop(end: End): Effect.Effect<never> {
    this.attempt.stop(end)
    return Effect.interrupt
  }
}

const inside = (method: string): string =>
  `ToolContext.${method} was called inside ToolContext.commit: confirm first, then commit`
