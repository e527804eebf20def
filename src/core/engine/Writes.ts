/**
 * The writes of a running call: questions from inside its handler, and what is looked at once more when a write
 * commits.
 */
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
import type { WaveState } from "./WaveState.ts"

/** The writes of one running call. */
export class Writes {
  private readonly wave: WaveState
  private readonly call: Call
  private readonly attempt: Attempt
  /** One write at a time is asked about. */
  private readonly asking = Semaphore.makeUnsafe(1)
  /** Seen by people, and not made yet. */
  private readonly confirmed: Array<Shown> = []
  private readonly looking = Semaphore.makeUnsafe(1)
  /** The first write has been looked at. */
  private isPrepared = false
  private isRefused = false

  constructor(wave: WaveState, call: Call, attempt: Attempt) {
    this.wave = wave
    this.call = call
    this.attempt = attempt
  }

  /** A write, behind a last look at what people have seen of it, and with what is there before kept. */
  prepared<A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const { call, wave } = this
      const isKept = wave.engine.checkpoints !== undefined && call.tool!.preview !== undefined
      if (this.confirmed.length === 0 && (this.isPrepared || (call.consent.shown === undefined && !isKept))) {
        if (call.tool!.preview === undefined) call.undo = { ...call.undo, isUnannounced: true }
        return write
      }
      // writes that come at the same time wait for one look: none goes past it
      return Effect.flatMap(
        this.looking.withPermits(1)(Effect.suspend(() => this.look())),
        (undo) => undo === undefined ? Effect.interrupt : Effect.onError(write, () => undo)
      )
    })
  }

  /** Looks once more, unless it was done; `undefined` if the write may not happen. */
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
        // a second try gets the same look
        this.isPrepared = !isFirst
        this.confirmed.push(...confirmed)
        return prepared.undo
      })
    })
  }

  /** Lets the policy decide about a write, asks where it says so, and ends once it may happen. */
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
    // inside a commit the write has already begun: a no could not stop it
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
    const refused = Permissions.check(permissions, gateCall, wave)
    if (refused?._tag === "PolicyDenied") {
      attempt.stop({ _tag: "Denied", reason: { _tag: "WriteDenied", by: "policy", reason: refused.rule } })
      return Effect.interrupt
    }
    const question = Permissions.asks(permissions, gateCall, call.rules!.consent)
    if (question === undefined || Preview.isNothing(wave.engine, call, gateCall, changes)) return Effect.void
    // an answer about no targets at all would be remembered as one about everything
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
   * Asks about a write. Meanwhile the call gives its permits up and its time stands still; it goes on once it holds
   * them again, or not at all, also where its handler gives up waiting.
   */
  private ask(question: ApprovalRound.Question): Effect.Effect<void> {
    const { attempt, call, wave } = this
    const { pools } = wave.engine
    return Effect.suspend(() => {
      // it may have been stopped while the store was asked
      if (attempt.isOver) return Effect.interrupt
      pools.releasePermits(call)
      // whoever got the permits may have ended this call
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
      // a handler that waits no longer goes on like any other: with all its permits
      return Effect.onInterrupt(confirmed, () => attempt.isOver ? Effect.void : Effect.ignoreCause(reentered))
    })
  }
}

// Utilities

const insideCommit = "ToolContext.confirmWrite was called inside ToolContext.commit: confirm first, then commit"

/** Why a write may not happen. */
type Problem =
  | { readonly error: "ChangedMeanwhile"; readonly paths: ReadonlyArray<string> }
  | { readonly error: "NotKept"; readonly message: string }

/**
 * Looks at what was shown once more and keeps what is there before the write: `undo` forgets that if the write does not
 * happen.
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
    // nobody had to be asked
    const again = Effect.provideContext(Effect.suspend(() => preview(call.gateCall!.params)), call.tool!.context)
    const own = yield* Detached.within(Preview.made(again), Preview.previewMillis)
    if (own === undefined || Exit.isFailure(own)) {
      return { error: "NotKept", message: "what is there now could not be read, so it could not be undone" }
    }
    looks.push(own.value)
  }
  const all = looks.flatMap(({ changes }) => changes)
  const files = all.filter((it) => !FileChange.isNothing(it))
  if (files.length === 0) {
    // nothing changes, and that is all there is to tell
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
  if (Exit.isFailure(saved)) return { error: "NotKept", message: "what is there now could not be kept for undoing it" }
  const forget = Effect.ignore(Effect.suspend(() => checkpoints.forget(saved.value)))
  const looked = looks.map((it) => it.shown)
  // keeping it took time: it is looked at once more
  const last = yield* Preview.lookAgain(looked)
  if ("paths" in last) return yield* Effect.as(forget, changed(last.paths))
  call.undo = { ...call.undo, isCheckpointed: true }
  // a write that failed may have written a part
  const undo = Effect.flatMap(Preview.lookAgain(looked), (now) => "paths" in now ? Effect.void : forget)
  return { undo }
})

const sentenceOf = (problem: Problem): string =>
  problem.error === "NotKept"
    ? `${problem.message}. Nothing was written.`
    : `${
      problem.paths.map((path) => `"${clip(path, 200)}"`).join(", ") || "what it writes to"
    } changed after the change was shown to a person. Nothing was written; look again and ask for the change anew.`
