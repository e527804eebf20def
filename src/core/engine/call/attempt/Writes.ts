/** The writes of a running call: their approval from inside its handler, and the checks when a write commits. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import { clip } from "../../../../internal/clip.ts"
import * as Detached from "../../../../internal/detached.ts"
import * as FileChange from "../../../vocabulary/FileChange.ts"
import { refused } from "../../data/CallEnd.ts"
import * as Preview from "../authorize/Preview.ts"
import type { Call, Shown } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"
import type { Attempt } from "./Attempt.ts"
import type { RunningApprovals } from "./RunningApprovals.ts"

/** The writes of one running call. */
export class Writes {
  private readonly wave: WaveHost
  private readonly call: Call
  private readonly attempt: Attempt
  private readonly approvals: RunningApprovals
  /** Previews that were approved and not written yet. */
  private readonly confirmed: Array<Shown> = []
  private readonly looking = Semaphore.makeUnsafe(1)
  /** The first write has been checked. */
  private isPrepared = false
  private isRefused = false

  constructor(wave: WaveHost, call: Call, attempt: Attempt, approvals: RunningApprovals) {
    this.wave = wave
    this.call = call
    this.attempt = attempt
    this.approvals = approvals
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
    if (!Effect.isEffect(preview)) {
      return Effect.die(new TypeError("ToolContext.confirmWrite takes an Effect of changes"))
    }
    return this.approvals.inTurn(
      "confirmWrite",
      Effect.contextWith((context: Context.Context<R>) =>
        Effect.flatMap(
          Preview.made(Effect.provideContext(preview, context)),
          ({ changes, shown }) => Effect.map(this.allowed(changes), () => void this.confirmed.push(shown))
        )
      )
    )
  }

  private allowed(changes: ReadonlyArray<FileChange.FileChange>): Effect.Effect<boolean> {
    const { call, wave } = this
    const targets = changes.map(({ kind, path, runBy }) => ({
      text: path,
      kind,
      ...(runBy === undefined ? {} : { runBy })
    }))
    return this.approvals.decide({
      targets,
      sandbox: call.gateCall!.sandbox,
      preview: Preview.seen(changes),
      // an approval without targets would be remembered for all targets
      remember: targets.length === 0 ? "call" : undefined,
      isNothing: (gateCall) => Preview.isNothing(wave.engine, call, gateCall, changes),
      ends: ({ by, reason }) => refused({ _tag: "WriteDenied", by, ...(reason === undefined ? {} : { reason }) })
    })
  }
}

/** Why a write may not happen. */
type Problem =
  | { readonly error: "ChangedMeanwhile"; readonly paths: ReadonlyArray<string> }
  | { readonly error: "NotKept"; readonly message: string }

/**
 * Checks the previews again and saves the previous content. `undo` removes the checkpoint if the write does not happen.
 */
const prepare = Effect.fnUntraced(function*(
  { engine: { checkpoints }, process }: WaveHost,
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
