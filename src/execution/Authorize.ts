/**
 * Gate 12: who allows a call, a standing permission or a person.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Approvals from "../policy/Approvals.ts"
import type { GateCall } from "../policy/Gate.ts"
import * as Permissions from "../policy/Permissions.ts"
import * as Grant from "../store/Grant.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { Attempt } from "./Attempt.ts"
import type { Call } from "./Call.ts"
import { cancelled, type End, refused } from "./End.ts"
import { lookUp, readKeys } from "./LookUp.ts"
import * as Preview from "./Preview.ts"
import * as Recheck from "./Recheck.ts"
import * as Revisions from "./Revisions.ts"
import { turnEnd } from "./State.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * What a person is asked about a call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Question extends Permissions.Asks {
  readonly preview?: Approvals.Preview | undefined
  /** What it is about, if not what the call was judged by. */
  readonly targets?: GateCall["targets"]
}

/**
 * What became of a question.
 *
 * @category models
 * @since 0.1.0
 */
export type Authorized =
  | { readonly _tag: "Ends"; readonly end: End }
  | { readonly _tag: "Allowed" }
  /** With other arguments: the call goes through the gates anew. */
  | { readonly _tag: "Edited"; readonly params: unknown }

const allowed: Authorized = { _tag: "Allowed" }
const ends = (end: End): Authorized => ({ _tag: "Ends", end })

/**
 * Whether a person has to be asked about a call, and has not been.
 *
 * @category getters
 * @since 0.1.0
 */
export const asks = (call: Call): Permissions.Asks | undefined =>
  call.approved === true ? undefined : Permissions.asks(call.agent.permissions, call.gateCall!, call.rules!.consent)

/**
 * Waits until a person has said whether a call may run, with what it would write
 * where its tool can tell. One that writes to the same as an earlier call of its
 * wave is asked about when that is over.
 *
 * @category steps
 * @since 0.1.0
 */
export const authorize = Effect.fnUntracedEager(function*(
  wave: WaveState,
  call: Call,
  question: Permissions.Asks
): Effect.fn.Return<Authorized> {
  const waitsFor = yield* reentry(wave, call)
  if (waitsFor !== undefined) return ends(refused({ _tag: "ReentryRefused", waitsFor }))
  if (call.tool!.preview === undefined || wave.engine.approvals === undefined) {
    return resolved(wave, call, yield* ask(wave, call, question))
  }
  for (let earlier = writerBefore(wave, call); earlier !== undefined; earlier = writerBefore(wave, call)) {
    yield* over(earlier)
    // what came before may have blocked its tool, put it out of order, or been answered for good
    const end = Recheck.recheck(wave, call, undefined, wave.now())
    if (end !== undefined) return ends(end)
    call.grant = yield* grantFor(wave, call, question)
    if (call.grant !== undefined) return allowed
  }
  const found = yield* preview(wave, call)
  // in a turn of its own: calls that wait for nobody are not overtaken
  yield* Effect.yieldNow
  const end = call.decided ?? turnEnd(wave.process, call.counted, wave.now())
  if (end !== undefined) return ends(end)
  // a remembered answer may have come meanwhile
  call.grant = yield* grantFor(wave, call, question)
  if (call.grant !== undefined) return allowed
  call.shown = found.shown
  if (!found.isNothing) return resolved(wave, call, yield* ask(wave, call, { ...question, preview: found.preview }))
  call.approved = true
  return allowed
})

/**
 * Gives what a call would write, for people to see.
 *
 * @category previews
 * @since 0.1.0
 */
export const preview = (wave: WaveState, call: Call): Effect.Effect<Preview.Previewed> =>
  Preview.preview(wave.engine, call, Math.max(0, wave.process.budget.left(wave.now())))

/**
 * Finds the last earlier call of a wave that is not over and writes to what a call
 * writes to, as far as they say so.
 *
 * @category getters
 * @since 0.1.0
 */
export const writerBefore = ({ calls }: WaveState, call: Call): Call | undefined => {
  const own = call.gateCall!.targets
  // the nearest: of many that write to the same each waits for the one before it
  for (let index = call.index - 1; index >= 0; index--) {
    const { decided, gateCall, isSettled, tool } = calls[index]!
    if (isSettled || decided !== undefined || gateCall === undefined || tool?.preview === undefined) continue
    const { targets } = gateCall
    const isSame = own === undefined || targets === undefined ||
      targets.some(({ text }) => own.some((it) => it.text === text))
    if (isSame) return calls[index]
  }
  return undefined
}

/**
 * Gives the standing permission that lets a call through, if there is one. Where
 * the store cannot tell there is none: a person is asked.
 *
 * @category getters
 * @since 0.1.0
 */
export const grantFor = (
  wave: WaveState,
  call: Call,
  question: Permissions.Asks,
  targets: GateCall["targets"] = call.gateCall!.targets
): Effect.Effect<Grant.Grant | undefined> => {
  const now = wave.now()
  return Effect.mapEager(
    wave.engine.store.grants(wave.engine.principal, now, wave.patience),
    (grants) => grantOf(wave, call, question, targets, grants, now)
  )
}

/**
 * Gives the first of some standing permissions that lets a call through.
 *
 * @category getters
 * @since 0.1.0
 */
export const grantOf = (
  { engine: { handlers, revoked } }: WaveState,
  call: Call,
  { remember }: Permissions.Asks,
  targets: GateCall["targets"],
  grants: ReadonlyArray<Grant.Grant> | StateStoreError,
  now: number
): Grant.Grant | undefined => {
  if (
    "operation" in grants || remember === "call" || grants.length === 0 || !Revisions.isCurrent(handlers, call.tool!)
  ) return undefined
  const { agentPath, tool: { name: tool } } = call.gateCall!
  const about = { agentPath, tool, revision: Revisions.of(call.tool!), targets }
  return grants.find((it) => !revoked.has(it.id) && Grant.covers(it, about, now))
}

/**
 * Asks a person and waits for the answer. Without anybody there, it is no at once.
 * The turn's clock stands still meanwhile; interruption withdraws the question.
 *
 * @category steps
 * @since 0.1.0
 */
export const ask = (wave: WaveState, call: Call, question: Question): Effect.Effect<Approvals.Resolution> =>
  Effect.suspend(() => {
    const { approvals } = wave.engine
    if (approvals === undefined) return Effect.succeed<Approvals.Resolution>(nobody(question))
    const { agentPath, args, batch, principal, process, tool: { class: kind, name: tool } } = call.gateCall!
    const { call: { id: callId }, index } = call
    const { targets = call.gateCall!.targets } = question
    // what is not known, or is about nothing that its tool names, cannot be remembered: it would be everything
    const isKnown = targets !== undefined && (targets.length > 0 || !call.tool!.declaresTargets)
    const about: Approvals.Question = {
      preview: undefined,
      ...question,
      remember: isKnown ? question.remember : "call",
      agentPath,
      args,
      batch,
      callId,
      class: kind,
      isRunning: call.attempt !== undefined,
      principal,
      process,
      revision: Revisions.of(call.tool!),
      targets: targets ?? [],
      tool
    }
    const at = () => ({ callId, tool, index, at: wave.now() })
    const diff = question.preview?._tag === "Diff" ? { diff: question.preview.diff } : {}
    const asked = Effect.flatMap(approvals.request(about), (request) => {
      if (request === undefined) return Effect.succeed(nobody(question))
      const { id: requestId } = request
      wave.events.publish({ _tag: "ToolApprovalRequested", ...at(), requestId, why: question.why, ...diff })
      return Effect.onExit(approvals.ask(request), (exit) =>
        Effect.sync(() => {
          const answer = Exit.isSuccess(exit) ? answerOf(exit.value) : "withdrawn"
          wave.events.publish({ _tag: "ToolApprovalResolved", ...at(), requestId, answer })
        }))
    })
    begin(wave)
    return Effect.ensuring(asked, Effect.sync(() => end(wave)))
  })

/**
 * Waits until no question of the wave is open.
 *
 * @category steps
 * @since 0.1.0
 */
export const quiet = (wave: WaveState, index: number): Effect.Effect<void> =>
  Effect.suspend(() =>
    wave.asked === 0 && wave.quiet.length === 0 ? Effect.void : Effect.callback<void>((resume) => {
      const waiting = { index, resume: () => resume(Effect.void) }
      wave.quiet.push(waiting)
      return Effect.sync(() => {
        const at = wave.quiet.indexOf(waiting)
        if (at !== -1) wave.quiet.splice(at, 1)
      })
    })
  )

/**
 * Notes what a person has said to a call.
 *
 * @category steps
 * @since 0.1.0
 */
export const resolved = (wave: WaveState, call: Call, resolution: Approvals.Resolution): Authorized => {
  if (resolution._tag === "Denied") return ends(refused(refusalOf(resolution)))
  if (resolution._tag === "Suspended") return ends(cancelled(resolution.reason))
  call.approved = true
  call.grant = resolution.grant
  call.isOwnGrant = resolution.isOwn
  // what covers it was said to another diff: nobody has looked at this one
  if (!resolution.isOwn) call.shown = undefined
  remember(wave, resolution)
  return resolution.edited === undefined ? allowed : { _tag: "Edited", params: resolution.edited.params }
}

/**
 * Gives the refusal of a question that was answered with no, or not at all.
 *
 * @category conversions
 * @since 0.1.0
 */
export const refusalOf = ({ by, reason }: Denied): ToolRefusal => ({
  _tag: "PermissionDenied",
  by,
  ...(reason === undefined ? {} : { reason })
})

/**
 * Asks about a write of a call that runs. It gives its permits up and its time
 * stands still; it goes on once it holds them again, or not at all, also where its
 * handler gives up waiting.
 *
 * @category steps
 * @since 0.1.0
 */
export const confirm = (
  wave: WaveState,
  call: Call,
  attempt: Attempt,
  question: Question
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { pools } = wave.engine
    // it may have been stopped while the store was asked
    if (attempt.isOver) return Effect.interrupt
    pools.releasePermits(call)
    // whoever got the permits may have ended this call
    if (attempt.isOver) return Effect.interrupt
    attempt.pause()
    const asked = Effect.onExit(ask(wave, call, question), () => Effect.sync(() => attempt.resume()))
    const reentered = withCall(wave, call, Effect.suspend(() => pools.reenter(call)))
    const confirmed = Effect.flatMap(withCall(wave, call, asked), (resolution) => {
      if (resolution._tag === "Denied") {
        const { by, reason } = resolution
        attempt.stop(refused({ _tag: "WriteDenied", by, ...(reason === undefined ? {} : { reason }) }))
        return Effect.interrupt
      }
      if (resolution._tag === "Suspended") {
        attempt.stop({ _tag: "Cancelled", started: true, reason: resolution.reason })
        return Effect.interrupt
      }
      remember(wave, resolution)
      return reentered
    })
    // a handler that waits no longer goes on like any other: with all its permits
    return Effect.onInterrupt(confirmed, () => attempt.isOver ? Effect.void : Effect.ignoreCause(reentered))
  })

/**
 * The resource keys of an admitted call. Where they cannot be had, calls of the
 * tool wait for each other.
 *
 * @category getters
 * @since 0.1.0
 */
export const resources = (wave: WaveState, call: Call): Effect.Effect<ReadonlyArray<string>> => {
  const tool = call.tool!
  if (tool.class === "ReadOnly") return noKeys
  return Effect.mapEager(
    lookUp(wave, tool, () => tool.resources(call.gateCall!.params), readKeys),
    (keys) => keys ?? [`?${tool.name}`]
  )
}

// Utilities

type Denied = {
  readonly by: Extract<ToolRefusal, { readonly _tag: "PermissionDenied" }>["by"]
  readonly reason?: string | undefined
}

const noKeys: Effect.Effect<ReadonlyArray<string>> = Effect.succeed([])

const nobody = ({ why }: Question): Approvals.Resolution => ({ _tag: "Denied", by: "noApprover", reason: why })

const answerOf = (resolution: Approvals.Resolution): string =>
  resolution._tag === "Denied"
    ? resolution.by
    : resolution._tag === "Suspended"
    ? "suspended"
    : resolution.grant?.answer ?? "ApproveOnce"

/** A question is open: the turn's clock may stand still. */
const begin = (wave: WaveState): void => {
  wave.asked++
  wave.process.budget.ask(1, wave.now())
  wave.watcher.asked()
}

/** A question is over. Those that waited until nobody is asked go on, in input order. */
const end = (wave: WaveState): void => {
  wave.asked--
  wave.process.budget.ask(-1, wave.now())
  if (wave.asked > 0) return
  const waiting = wave.quiet.splice(0).sort((a, b) => a.index - b.index)
  for (const { resume } of waiting) resume()
}

/** Keeps what a person said to more than this one question. */
const remember = (
  wave: WaveState,
  { grant, isOwn }: Extract<Approvals.Resolution, { readonly _tag: "Approved" }>
): void => {
  if (grant !== undefined && isOwn) wave.note(wave.engine.store.grant(grant, wave.patience))
}

/**
 * What the call would wait for though the handler's own call holds it, as things
 * are now.
 *
 * @category getters
 * @since 0.1.0
 */
export const reentry = (wave: WaveState, call: Call): Effect.Effect<string | undefined> =>
  call.parent === undefined
    ? Effect.undefined
    : Effect.mapEager(resources(wave, call), (resources) => wave.engine.pools.reentry(call, { resources }))

/** Ends once a call has its outcome and has given back its permits, in a turn of its own: a line of them may be long. */
const over = (call: Call): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const run = () => resume(Effect.yieldNow)
    ;(call.afterwards ??= new Set()).add(run)
    return Effect.sync(() => void call.afterwards?.delete(run))
  })

/**
 * An effect that ends with the call, also where whoever waits for it cannot be
 * interrupted.
 *
 * @category combining
 * @since 0.1.0
 */
export const withCall = <A>(wave: WaveState, call: Call, effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.callback<A>((resume) => {
    const fiber = Effect.runForkWith(wave.context)(effect)
    call.waiting = fiber
    fiber.addObserver((exit) => {
      call.waiting = undefined
      resume(exit)
    })
    return Effect.sync(() => fiber.interruptUnsafe())
  })
