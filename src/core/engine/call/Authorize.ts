/** Gate 12: a grant or an approver allows the call. */
import * as Effect from "effect/Effect"
import * as Approving from "../../gates/Approving.ts"
import * as Permissions from "../../gates/Permissions.ts"
import type { ToolRefusal } from "../../vocabulary/ToolRefusal.ts"
import { cancelled, type End, refused } from "../data/CallEnd.ts"
import { turnEnd } from "../state/State.ts"
import * as ToolAnswers from "./arrive/ToolAnswers.ts"
import * as ApprovalRound from "./authorize/ApprovalRound.ts"
import * as Preview from "./authorize/Preview.ts"
import * as Review from "./authorize/Review.ts"
import * as StandingGrants from "./authorize/StandingGrants.ts"
import type { Call } from "./Call.ts"
import * as Recheck from "./start/Recheck.ts"
import type { WaveHost } from "./WaveHost.ts"

/** The result of an approval request. */
export type Authorized =
  | { readonly _tag: "Ends"; readonly end: End }
  | { readonly _tag: "Allowed" }
  /** Allowed with edited arguments: the call passes the gates again. */
  | { readonly _tag: "Edited"; readonly params: unknown }

const allowed: Authorized = { _tag: "Allowed" }
const ends = (end: End): Authorized => ({ _tag: "Ends", end })

/** Returns the approval request that a call still needs, if any. */
export const asks = (call: Call): ApprovalRound.Question | undefined => {
  const { consent: { approved, editedBy }, gateCall, tool, why } = call
  if (approved === undefined) {
    const question = needed(call)
    if (why !== undefined) return { ...question, why, remember: "call" }
    return question === undefined || tool!.form === undefined ? question : { ...question, remember: "call" }
  }
  if (editedBy === undefined) return undefined
  // with edited arguments it may be a call that others have to approve
  const question = needed(call)
  if (question === undefined) return undefined
  const about = { approvers: question.approvers, principal: gateCall!.principal, requestedAt: call.driver.now() }
  return Approving.isApproved(editedBy, about) ? undefined : { ...question, approvals: editedBy }
}

const needed = (call: Call): Permissions.Asks | undefined => {
  const { agent: { permissions }, driver, gateCall, rules } = call
  const asked = Permissions.asks(permissions, gateCall!, rules!.consent)
  return Permissions.withObjection(permissions, gateCall!, asked, driver.unproved(call))
}

/** Whether approvers or a reviewer can be asked about a call, or approvers answered before a crash. */
export const isAnswerable = ({ process: { people } }: WaveHost, { answers, consent }: Call): boolean =>
  people !== undefined || answers?.given !== undefined || consent.isReviewable === true

/** Refuses the calls that need approval if nobody can give it: no approver, no reviewer that may, and no grant. */
export const refuseUnanswerable = (wave: WaveHost, calls: ReadonlyArray<Call>): Effect.Effect<void> => {
  if (wave.process.people !== undefined) return Effect.void
  const asking: Array<readonly [Call, Permissions.Asks]> = []
  for (const call of calls) {
    const isOpen = call.decided === undefined && call.consent.refused === undefined && !isAnswerable(wave, call)
    const question = isOpen ? asks(call) : undefined
    if (question === undefined) continue
    if (Review.mandate(wave, call, question)?.mayAllow === true) call.consent = { ...call.consent, isReviewable: true }
    else asking.push([call, question])
  }
  if (asking.length === 0) return Effect.void
  const { principal, store } = wave.engine
  const now = wave.now()
  return Effect.mapEager(store.grants(principal, now, wave.patience), (grants) => {
    if ("operation" in grants) wave.unanswered(asking[0]![0], grants)
    for (const [call, question] of asking) {
      const grant = StandingGrants.grantOf(wave, call, question, call.gateCall!.targets, grants, now)
      if (grant !== undefined) {
        call.consent = { ...call.consent, grant }
        continue
      }
      const refused: ToolRefusal = "operation" in grants
        ? { _tag: "StoreUnavailable", operation: grants.operation }
        : Recheck.notAllowed(call, question, ApprovalRound.nobody(question))
      call.consent = { ...call.consent, refused }
    }
  })
}

/**
 * Waits for the approval of a call, with a preview of its writes if its tool provides one.
 *
 * If an earlier call of the wave writes to the same targets, the request is made after that call is over.
 */
export const authorize = Effect.fnUntracedEager(function*(
  wave: WaveHost,
  call: Call,
  question: Permissions.Asks
): Effect.fn.Return<Authorized> {
  const waitsFor = yield* reentry(wave, call)
  if (waitsFor !== undefined) return ends(refused({ _tag: "ReentryRefused", waitsFor }))
  if (call.tool!.preview === undefined) {
    return resolved(call, question, yield* ApprovalRound.ask(wave, call, question))
  }
  for (let earlier = writerBefore(wave, call); earlier !== undefined; earlier = writerBefore(wave, call)) {
    call.peers = { ...call.peers, behind: earlier }
    yield* Effect.ensuring(
      over(earlier),
      Effect.sync(() => {
        call.peers = { ...call.peers, behind: undefined }
      })
    )
    // the earlier call may have blocked the tool or changed the order, and its answer may cover this one
    const end = Recheck.recheck(wave, call, undefined, wave.now())
    if (end !== undefined) return ends(end)
    if (yield* isGranted(wave, call, question)) return allowed
  }
  const found = yield* preview(wave, call)
  // yield first: calls that wait for nothing must not be overtaken
  yield* Effect.yieldNow
  const end = call.decided ?? turnEnd(wave.process, call.counted, wave.now())
  if (end !== undefined) return ends(end)
  // an answer to another request may cover this call by now
  if (yield* isGranted(wave, call, question)) return allowed
  call.consent = { ...call.consent, shown: found.shown }
  if (!found.isNothing) {
    return resolved(call, question, yield* ApprovalRound.ask(wave, call, { ...question, preview: found.preview }))
  }
  call.consent = { ...call.consent, approved: "unchanged" }
  return allowed
})

/** Whether a grant covers a call; notes it in the call. */
export const isGranted = (wave: WaveHost, call: Call, question: Permissions.Asks): Effect.Effect<boolean> =>
  Effect.mapEager(StandingGrants.grantFor(wave, call, question), (grant) => {
    call.consent = { ...call.consent, grant }
    return grant !== undefined
  })

/** Previews what a call would write. */
export const preview = (wave: WaveHost, call: Call): Effect.Effect<Preview.Previewed> =>
  Preview.preview(wave.engine, call, Math.max(0, wave.process.budget.left(wave.now())))

/** Returns the nearest earlier unfinished call of a wave that may write to the same targets. */
export const writerBefore = ({ calls }: WaveHost, call: Call): Call | undefined => {
  const own = call.gateCall!.targets
  // the nearest: among many writers to one target, each waits for the one before it
  for (let index = call.index - 1; index >= 0; index--) {
    const { decided, past, gateCall, isSettled, phase, tool } = calls[index]!
    if (isSettled || decided !== undefined || gateCall === undefined || tool?.preview === undefined) continue
    // it writes nothing any more
    if (past !== undefined) continue
    // it shares another call's outcome, and writes nothing itself
    if (phase._tag === "Joined") continue
    const { targets } = gateCall
    const isSame = own === undefined || targets === undefined ||
      targets.some(({ text }) => own.some((it) => it.text === text))
    if (isSame) return calls[index]
  }
  return undefined
}

/** Applies an approver's answer to a call. */
export const resolved = (call: Call, question: Permissions.Asks, resolution: ApprovalRound.Answer): Authorized => {
  if (resolution._tag === "Unrecorded") return ends(refused({ _tag: "StoreUnavailable", operation: "journal" }))
  if (resolution._tag === "Allowed") {
    call.consent = { ...call.consent, approved: "reviewer" }
    return allowed
  }
  if (resolution._tag === "Denied") return ends(refused(Recheck.notAllowed(call, question, resolution)))
  if (resolution._tag === "Suspended") {
    call.consent = { ...call.consent, isSuspended: true }
    return ends(cancelled(resolution.reason))
  }
  const { grant, isOwn: isOwnGrant } = resolution
  // an answer to another request was about another diff
  const shown = isOwnGrant ? call.consent.shown : undefined
  const { approvals = [], edited } = resolution
  const editedBy = edited === undefined ? undefined : approvals
  call.consent = { ...call.consent, approved: "answer", grant, isOwnGrant, shown, editedBy }
  return edited === undefined ? allowed : { _tag: "Edited", params: edited.params }
}

/** Returns what the call would wait for forever, because the call whose handler makes it holds it. */
export const reentry = (wave: WaveHost, call: Call): Effect.Effect<string | undefined> =>
  call.parent === undefined
    ? Effect.undefined
    : Effect.mapEager(ToolAnswers.resources(wave, call), (resources) => wave.engine.pools.reentry(call, { resources }))

/**
 * Waits until a call has its outcome and has returned its permits. Yields, because a line of waiting calls may be long.
 */
const over = (call: Call): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const run = () => resume(Effect.yieldNow)
    const { afterwards = new Set() } = call.peers
    afterwards.add(run)
    call.peers = { ...call.peers, afterwards }
    return Effect.sync(() => void afterwards.delete(run))
  })
