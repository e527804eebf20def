/** The writes of a running call: approval requests from inside its handler, and the checks when a write commits. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import { clip } from "../../internal/clip.ts"
import * as Detached from "../../internal/detached.ts"
import * as Permissions from "../gates/Permissions.ts"
import * as FileChange from "../vocabulary/FileChange.ts"
import * as ApprovalRound from "./ApprovalRound.ts"
import { type Attempt, InCommit } from "./Attempt.ts"
import * as Authorize from "./Authorize.ts"
import type { Call, Shown } from "./Call.ts"
import { refused } from "./CallEnd.ts"
import * as Preview from "./Preview.ts"
import * as ShadowLook from "./ShadowLook.ts"
import type { WaveState } from "./WaveState.ts"

/** The writes of one running call. */
export class Writes {
  private readonly wave: WaveState
  private readonly call: Call
  private readonly attempt: Attempt
  /** Approval is requested for one write at a time. */
  private readonly asking = Semaphore.makeUnsafe(1)
  /** Previews that were approved and not written yet. */
  private readonly confirmed: Array<Shown> = []
  private readonly looking = Semaphore.makeUnsafe(1)
  /** The first write has been checked. */
  private isPrepared = false
  private isRefused = false

  constructor(wave: WaveState, call: Call, attempt: Attempt) {
    this.wave = wave
    this.call = call
    this.attempt = attempt
  }

  /** Adds to a write a last check of its preview, and a checkpoint of the previous content. */
  prepared<A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const { call, wave } = this
      const isKept = wave.engine.checkpoints !== undefined && call.tool!.preview !== undefined
      if (this.confirmed.length === 0 && (this.isPrepared || (call.consent.shown === undefined && !isKept))) {
        if (call.tool!.preview === undefined) call.undo = { ...call.undo, isUnannounced: true }
        return write
      }
      // concurrent writes wait for the same check
      return Effect.flatMap(
        this.looking.withPermits(1)(Effect.suspend(() => this.look())),
        (undo) => undo === undefined ? Effect.interrupt : Effect.onError(write, () => undo)
      )
    })
  }

  /** Checks the preview again, unless that was done; `undefined` if the write may not happen. */
  private look(): Effect.Effect<Effect.Effect<void> | undefined> {
    const { attempt, call, wave } = this
    if (this.isRefused) return Effect.undefined
    const isFirst = !this.isPrepared
    const confirmed = this.confirmed.splice(0)
    if (!isFirst && confirmed.length === 0) return Effect.succeed(Effect.void)
    const shown = isFirst && call.consent.shown !== undefined ? [call.consent.shown, ...confirmed] : confirmed
    return Effect.map(prepare(wave, call, shown), (prepared) => {
      if ("error" in prepared) {
        this.isRefused = true
        attempt.refuseWrite(prepared, sentenceOf(prepared))
        return undefined
      }
      this.isPrepared = true
      return Effect.suspend(() => {
        // a retry is checked again
        this.isPrepared = !isFirst
        this.confirmed.push(...confirmed)
        return prepared.undo
      })
    })
  }

  /** Applies the policy to a write, requests approval if required, and ends once the write may happen. */
  confirm<E, R>(
    preview: Effect.Effect<ReadonlyArray<FileChange.FileChange>, E, R>
  ): Effect.Effect<void, E, R> {
    const asking = this.asking.withPermits(1)(
      Effect.contextWith((context: Context.Context<R>) =>
        Effect.flatMap(
          Preview.made(Effect.provideContext(preview, context)),
          ({ changes, shown }) => Effect.map(this.allowed(changes), () => void this.confirmed.push(shown))
        )
      )
    )
    if (!Effect.isEffect(preview)) {
      return Effect.die(new TypeError("ToolContext.confirmWrite takes an Effect of changes"))
    }
    // inside a commit the write has already begun, so a denial could not stop it
    return Effect.flatMap(InCommit, (commit) => commit === undefined ? asking : Effect.die(new Error(insideCommit)))
  }

  private allowed(changes: ReadonlyArray<FileChange.FileChange>): Effect.Effect<void> {
    const { attempt, call, wave } = this
    const { permissions } = call.agent
    const targets = changes.map(({ kind, path, runBy }) => ({
      text: path,
      kind,
      ...(runBy === undefined ? {} : { runBy })
    }))
    const gateCall = { ...call.gateCall!, targets }
    ShadowLook.look(wave, call, gateCall, true)
    const refused = Permissions.check(permissions, gateCall, wave)
    if (refused?._tag === "PolicyDenied") {
      attempt.stop({ _tag: "Denied", reason: { _tag: "WriteDenied", by: "policy", reason: refused.rule } })
      return Effect.interrupt
    }
    const question = Permissions.asks(permissions, gateCall, call.rules!.consent)
    if (question === undefined || Preview.isNothing(wave.engine, call, gateCall, changes)) return Effect.void
    // an approval without targets would be remembered for all targets
    const asks: Permissions.Asks = targets.length === 0 ? { ...question, remember: "call" } : question
    return Effect.flatMap(
      Authorize.grantFor(wave, call, asks, targets),
      (grant) =>
        grant !== undefined
          ? Effect.void
          : this.ask({ ...asks, targets, preview: Preview.seen(changes) })
    )
  }

  /**
   * Requests approval for a write. Meanwhile the call releases its permits and its clock is paused. It continues only
   * once it holds its permits again, even if its handler stops waiting.
   */
  private ask(question: ApprovalRound.Question): Effect.Effect<void> {
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
      const confirmed = Effect.flatMap(ApprovalRound.withCall(wave, call, asked), (resolution) => {
        if (resolution._tag === "Unrecorded") {
          attempt.stop(refused({ _tag: "StoreUnavailable", operation: "journal" }))
          return Effect.interrupt
        }
        if (resolution._tag === "Denied") {
          const { by, reason } = resolution
          attempt.stop(refused({ _tag: "WriteDenied", by, ...(reason === undefined ? {} : { reason }) }))
          return Effect.interrupt
        }
        if (resolution._tag === "Suspended") {
          attempt.stop({ _tag: "Cancelled", started: true, reason: resolution.reason })
          return Effect.interrupt
        }
        return reentered
      })
      // a handler that stops waiting continues like any other: with all its permits
      return Effect.onInterrupt(confirmed, () => attempt.isOver ? Effect.void : Effect.ignoreCause(reentered))
    })
  }
}

const insideCommit = "ToolContext.confirmWrite was called inside ToolContext.commit: confirm first, then commit"

/** Why a write may not happen. */
type Problem =
  | { readonly error: "ChangedMeanwhile"; readonly paths: ReadonlyArray<string> }
  | { readonly error: "NotKept"; readonly message: string }

/**
 * Checks the previews again and saves the previous content. `undo` removes the checkpoint if the write does not happen.
 */
const prepare = Effect.fnUntraced(function*(
  { engine: { checkpoints }, process }: WaveState,
  call: Call,
  shown: ReadonlyArray<Shown>
): Effect.fn.Return<Problem | { readonly undo: Effect.Effect<void> }> {
  const { preview } = call.tool!
  const changed = (paths: ReadonlyArray<string>): Problem => ({ error: "ChangedMeanwhile", paths })
  const first = yield* Preview.lookAgain(shown)
  if ("paths" in first) return changed(first.paths)
  if (checkpoints === undefined) return { undo: Effect.void }
  const looks = [...first]
  if (shown.length === 0 && preview !== undefined) {
    // no approval was needed, so there is no preview yet
    const again = Effect.provideContext(Effect.suspend(() => preview(call.gateCall!.params)), call.tool!.context)
    const own = yield* Detached.within(Preview.made(again), Preview.previewMillis)
    if (own === undefined || Exit.isFailure(own)) {
      return { error: "NotKept", message: "the current content could not be read, so the change could not be undone" }
    }
    looks.push(own.value)
  }
  const all = looks.flatMap(({ changes }) => changes)
  const files = all.filter((it) => !FileChange.isNothing(it))
  if (files.length === 0) {
    // nothing changes, so the checkpoint is complete
    if (all.length > 0) call.undo = { ...call.undo, isCheckpointed: true }
    return { undo: Effect.void }
  }
  const saving = checkpoints.save({
    principal: call.gateCall!.principal,
    batch: process.batch.id,
    callId: call.call.id,
    tool: call.tool!.name,
    files
  })
  const saved = yield* Effect.exit(saving)
  if (Exit.isFailure(saved)) {
    return { error: "NotKept", message: "the current content could not be saved, so the change could not be undone" }
  }
  const forget = Effect.ignore(Effect.suspend(() => checkpoints.forget(saved.value)))
  const looked = looks.map((it) => it.shown)
  // saving took time: check again
  const last = yield* Preview.lookAgain(looked)
  if ("paths" in last) return yield* Effect.as(forget, changed(last.paths))
  call.undo = { ...call.undo, isCheckpointed: true }
  // a failed write may have written a part
  const undo = Effect.flatMap(Preview.lookAgain(looked), (now) => "paths" in now ? Effect.void : forget)
  return { undo }
})

const sentenceOf = (problem: Problem): string =>
  problem.error === "NotKept"
    ? `${problem.message}. Nothing was written.`
    : `${
      problem.paths.map((path) => `"${clip(path, 200)}"`).join(", ") || "its target"
    } changed after the change was shown for approval. Nothing was written. Read it again and resubmit.`
