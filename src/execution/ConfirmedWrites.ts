/**
 * Writes that people see before they happen: the preview of a call, questions
 * from inside a running handler, and what is looked at once more when the write
 * commits.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as FileChange from "../FileChange.ts"
import { clip } from "../internal/clip.ts"
import * as Detached from "../internal/detached.ts"
import type { Preview } from "../policy/Approvals.ts"
import type { GateCall } from "../policy/Gate.ts"
import * as Permissions from "../policy/Permissions.ts"
import { type Attempt, InCommit } from "./Attempt.ts"
import type { Calls } from "./Calls.ts"
import type { CallState } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"

/**
 * Says what a write does to files.
 *
 * @category models
 * @since 0.1.0
 */
export type Previewing = Effect.Effect<ReadonlyArray<FileChange.FileChange>, unknown>

/**
 * A preview that a person has seen, and the files it was made of.
 *
 * @category models
 * @since 0.1.0
 */
export interface Shown {
  readonly again: Previewing
  readonly fingerprint: string
}

/**
 * A preview, or why there is none.
 *
 * @category models
 * @since 0.1.0
 */
export interface Previewed {
  readonly preview: Preview
  readonly shown: Shown | undefined
  /** The call would leave everything as it is: nobody needs to be asked about that. */
  readonly isNothing: boolean
}

/** Milliseconds that a preview may take. */
const previewMillis = 5_000

/**
 * Gives what a call would write, if its tool can tell, for people to see.
 * Without one it says why.
 *
 * @category previews
 * @since 0.1.0
 */
export const preview = (
  engine: Engine,
  call: CallState,
  millis: number
): Effect.Effect<Previewed> => {
  const { context, preview } = call.tool!
  const again = Effect.provideContext(Effect.suspend(() => preview!(call.gateCall!.params)), context)
  return Effect.map(Detached.within(made(again), Math.min(previewMillis, millis)), (exit) => {
    if (exit === undefined) return without("it could not be found out in time")
    return Exit.isSuccess(exit)
      ? {
        preview: seen(exit.value.changes),
        shown: exit.value.shown,
        // what else a tool does than to edit nobody can tell
        isNothing: call.tool!.edits && isNothing(engine, call, call.gateCall!, exit.value.changes)
      }
      : without(reasonOf(exit.cause))
  })
}

/** Runs a preview and gives the files it is about, and how to make it once more. */
const made = <E>(again: Effect.Effect<ReadonlyArray<FileChange.FileChange>, E>) =>
  Effect.flatMap(again, (changes) =>
    FileChange.isChanges(changes)
      ? Effect.succeed({ changes, shown: { again, fingerprint: FileChange.fingerprint(changes) } })
      : Effect.die(new TypeError("a preview has to give { path, before, after }s")))

/** Changes as people see them: made only for those who do. */
const seen = (changes: ReadonlyArray<FileChange.FileChange>): Preview => ({
  _tag: "Diff",
  diff: FileChange.diff(changes)
})

/**
 * Notes a call that is about to change things without saying which files: it
 * cannot be undone, and whoever undoes something is told.
 *
 * @category writing
 * @since 0.1.0
 */
export const note = (
  { checkpoints, principal }: Engine,
  { batch }: ProcessState,
  call: CallState
): Effect.Effect<void> | undefined => {
  const { name, preview, readOnly, recursive } = call.tool!
  if (checkpoints === undefined || readOnly || recursive || preview !== undefined) return undefined
  const noted = Effect.suspend(() =>
    checkpoints.save({ principal, batch: batch.id, callId: call.call.id, tool: name, files: [] })
  )
  return Effect.ignore(Effect.map(noted, (it) => {
    call.note = it
  }))
}

/**
 * Takes the note of a call back that did not run, was refused its write, or has
 * said all that it writes.
 *
 * @category writing
 * @since 0.1.0
 */
export const takeBack = (
  { checkpoints }: Engine,
  { isCheckpointed, isUnannounced, note, outcome }: CallState
): Effect.Effect<void> | undefined => {
  if (checkpoints === undefined || note === undefined) return undefined
  const isRefused = outcome?._tag === "Denied" && outcome.reason._tag === "WriteDenied" && outcome.commits === 0
  const isTold = isCheckpointed === true && isUnannounced !== true
  return outcome?.startedAt !== undefined && !isRefused && !isTold
    ? undefined
    : Effect.ignore(Effect.suspend(() => checkpoints.forget(note)))
}

/**
 * The writes of one running call.
 *
 * @category models
 * @since 0.1.0
 */
export class Writes {
  private readonly engine: Engine
  private readonly process: ProcessState
  private readonly calls: Calls
  private readonly call: CallState
  private readonly attempt: Attempt
  /** One write at a time is asked about. */
  private readonly asking = Semaphore.makeUnsafe(1)
  /** Seen by people, and not made yet. */
  private readonly confirmed: Array<Shown> = []
  private readonly looking = Semaphore.makeUnsafe(1)
  /** The first write has been looked at. */
  private isPrepared = false
  private isRefused = false

  constructor(engine: Engine, process: ProcessState, calls: Calls, call: CallState, attempt: Attempt) {
    this.engine = engine
    this.process = process
    this.calls = calls
    this.call = call
    this.attempt = attempt
  }

  /** A write, behind a last look at what people have seen of it, and with what is there before kept. */
  prepared<A, E, R>(write: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const { call, engine } = this
      const isKept = engine.checkpoints !== undefined && call.tool!.preview !== undefined
      if (this.confirmed.length === 0 && (this.isPrepared || (call.shown === undefined && !isKept))) {
        if (call.tool!.preview === undefined) call.isUnannounced = true
        return write
      }
      // writes at once wait for one look: none goes past it
      return Effect.flatMap(
        this.looking.withPermits(1)(Effect.suspend(() => this.look())),
        (undo) => undo === undefined ? Effect.interrupt : Effect.onError(write, () => undo)
      )
    })
  }

  /** Looks once more, unless it was done; `undefined` if the write may not happen. */
  private look(): Effect.Effect<Effect.Effect<void> | undefined> {
    const { attempt, call, engine, process } = this
    if (this.isRefused) return Effect.undefined
    const isFirst = !this.isPrepared
    const confirmed = this.confirmed.splice(0)
    if (!isFirst && confirmed.length === 0) return Effect.succeed(Effect.void)
    const shown = isFirst && call.shown !== undefined ? [call.shown, ...confirmed] : confirmed
    return Effect.map(prepare(engine, process, call, shown), (prepared) => {
      if ("error" in prepared) {
        this.isRefused = true
        attempt.refuseWrite(prepared, sentenceOf(prepared))
        return undefined
      }
      this.isPrepared = true
      return Effect.suspend(() => {
        // another try is looked at like this one
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
          made(Effect.provideContext(preview, context)),
          ({ changes, shown }) => Effect.map(this.allowed(changes), () => void this.confirmed.push(shown))
        )
      )
    )
    if (!Effect.isEffect(preview)) {
      return Effect.die(new TypeError("ToolContext.confirmWrite takes an Effect of changes"))
    }
    // inside a commit the write has begun: a no could not stop it
    return Effect.flatMap(InCommit, (commit) => commit === undefined ? asking : Effect.die(new Error(insideCommit)))
  }

  private allowed(changes: ReadonlyArray<FileChange.FileChange>): Effect.Effect<void> {
    const { attempt, call, calls, engine } = this
    const { permissions } = call.agent
    const targets = changes.map(({ kind, path, runBy }) => ({
      text: path,
      kind,
      ...(runBy === undefined ? {} : { runBy })
    }))
    const gateCall = { ...call.gateCall!, targets }
    const refused = Permissions.check(permissions, gateCall)
    if (refused?._tag === "PolicyDenied") {
      attempt.stop({ _tag: "Denied", reason: { _tag: "WriteDenied", by: "policy", reason: refused.rule } })
      return Effect.interrupt
    }
    const question = Permissions.asks(permissions, gateCall, call.rules!.consent)
    if (question === undefined || isNothing(engine, call, gateCall, changes)) return Effect.void
    // a write of nothing would be remembered as one of everything
    const asks: Permissions.Asks = targets.length === 0 ? { ...question, remember: "call" } : question
    const known = calls.questions.grantFor(call, asks, targets)
    return Effect.flatMap(
      "wait" in known ? known.wait : Effect.succeed(known.grant),
      (grant) =>
        grant !== undefined ? Effect.void : Effect.callback<void>((resume) => {
          attempt.atEnd(() => resume(Effect.interrupt))
          // it may have been stopped while the store was asked
          if (attempt.isOver) return
          calls.questions.confirm(call, { ...asks, targets, preview: seen(changes) }, () => resume(Effect.void))
        })
    )
  }
}

// Utilities

const insideCommit = "ToolContext.confirmWrite was called inside ToolContext.commit: confirm first, then commit"

const without = (because: string): Previewed => ({
  preview: { _tag: "None", because },
  shown: undefined,
  isNothing: false
})

/**
 * Whether a write changes nothing, and may be told to. What the policy asks about
 * for its own sake, or what the agent may not look at, is asked about even so: the
 * answer tells what is there.
 */
const isNothing = (
  engine: Engine,
  { agent, rules }: CallState,
  gateCall: GateCall,
  changes: ReadonlyArray<FileChange.FileChange>
): boolean =>
  changes.length > 0 && changes.every(FileChange.isNothing) && rules!.consent === undefined &&
  !Permissions.mindsTargets(agent.permissions, gateCall) &&
  (gateCall.tool.shownBy ?? []).every((name) => {
    const tool = engine.handlers.current().get(name)
    return tool !== undefined &&
      Permissions.letsRun(agent.permissions, gateCall, tool, engine.rules.current().forTool(name).consent)
  })

/** What a tool says of a write that it cannot preview; of a defect nothing. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  const message = typeof failure === "object" && failure !== null && "message" in failure ? failure.message : failure
  return typeof message === "string" ? message : "the tool could not tell"
}

/** Why a write may not happen. */
type Problem =
  | { readonly error: "ChangedMeanwhile"; readonly paths: ReadonlyArray<string> }
  | { readonly error: "NotKept"; readonly message: string }

/**
 * Looks at what was shown once more and keeps what is there before the write:
 * `undo` forgets that if the write does not happen.
 */
const prepare = Effect.fnUntraced(function*(
  engine: Engine,
  process: ProcessState,
  call: CallState,
  shown: ReadonlyArray<Shown>
): Effect.fn.Return<Problem | { readonly undo: Effect.Effect<void> }> {
  const { checkpoints } = engine
  const { preview } = call.tool!
  const changed = (paths: ReadonlyArray<string>): Problem => ({ error: "ChangedMeanwhile", paths })
  const first = yield* lookAgain(shown)
  if ("paths" in first) return changed(first.paths)
  if (checkpoints === undefined) return { undo: Effect.void }
  const looks = [...first]
  if (shown.length === 0 && preview !== undefined) {
    // nobody had to be asked
    const again = Effect.provideContext(Effect.suspend(() => preview(call.gateCall!.params)), call.tool!.context)
    const own = yield* Detached.within(made(again), previewMillis)
    if (own === undefined || Exit.isFailure(own)) {
      return { error: "NotKept", message: "what is there now could not be read, so it could not be undone" }
    }
    looks.push(own.value)
  }
  const all = looks.flatMap(({ changes }) => changes)
  const files = all.filter((it) => !FileChange.isNothing(it))
  if (files.length === 0) {
    // that nothing changes is all there is to tell
    if (all.length > 0) call.isCheckpointed = true
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
  // keeping it took its time
  const last = yield* lookAgain(looked)
  if ("paths" in last) return yield* Effect.as(forget, changed(last.paths))
  call.isCheckpointed = true
  // a write that fails may have written a part
  const undo = Effect.flatMap(lookAgain(looked), (now) => "paths" in now ? Effect.void : forget)
  return { undo }
})

/** Makes previews once more; gives the paths of the first whose files are not the same. */
const lookAgain = Effect.fnUntraced(function*(
  shown: ReadonlyArray<Shown>
): Effect.fn.Return<
  | { readonly paths: ReadonlyArray<string> }
  | ReadonlyArray<{ readonly changes: ReadonlyArray<FileChange.FileChange>; readonly shown: Shown }>
> {
  const found = []
  for (const it of shown) {
    const now = yield* Detached.within(it.again, previewMillis)
    const changes = now !== undefined && Exit.isSuccess(now) && FileChange.isChanges(now.value) ? now.value : []
    if (FileChange.fingerprint(changes) !== it.fingerprint) return { paths: changes.map(({ path }) => path) }
    found.push({ changes, shown: it })
  }
  return found
})

const sentenceOf = (problem: Problem): string =>
  problem.error === "NotKept"
    ? `${problem.message}. Nothing was written.`
    : `${
      problem.paths.map((path) => `"${clip(path, 200)}"`).join(", ") || "what it writes to"
    } changed after the change was shown to a person. Nothing was written; look again and ask for the change anew.`
