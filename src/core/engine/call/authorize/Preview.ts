/** What a call would write, shown to approvers beforehand and verified when the write happens. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../../../../internal/detached.ts"
import type * as Approvals from "../../../gates/Approvals.ts"
import type { GateCall } from "../../../gates/Gate.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import * as FileChange from "../../../vocabulary/FileChange.ts"
import type { Call, Shown } from "../Call.ts"
import type { Engine } from "../Engine.ts"

/** A preview, or why it is missing. */
export interface Previewed {
  readonly preview: Approvals.Preview
  readonly shown: Shown | undefined
  /** The call would change nothing, so it needs no approval. */
  readonly isNothing: boolean
}

/** Milliseconds that a preview may take. */
export const previewMillis = 5_000

/** Previews the writes of a call for approvers. If there is no preview, the result says why. */
export const preview = (
  engine: Engine,
  call: Call,
  millis: number
): Effect.Effect<Previewed> => {
  const { context, preview } = call.tool!
  const again = Effect.provideContext(Effect.suspend(() => preview!(call.gateCall!.params)), context)
  return Effect.map(Detached.within(made(again), Math.min(previewMillis, millis)), (exit) => {
    if (exit === undefined) return without("the preview timed out")
    return Exit.isSuccess(exit)
      ? {
        preview: seen(exit.value.changes),
        shown: exit.value.shown,
        // only a tool that just edits is known to change nothing else
        isNothing: call.tool!.edits && isNothing(engine, call, call.gateCall!, exit.value.changes)
      }
      : without(reasonOf(exit.cause))
  })
}

/** Runs a preview and gives the changes, and how to preview them again. */
export const made = <E>(again: Effect.Effect<ReadonlyArray<FileChange.FileChange>, E>) =>
  Effect.flatMap(again, (changes) =>
    FileChange.isChanges(changes)
      ? Effect.succeed({ changes, shown: { again, fingerprint: FileChange.fingerprint(changes) } })
      : Effect.die(new TypeError("a preview must return a list of { path, before, after }")))

/** Changes as approvers see them. The diff is made when it is first read. */
export const seen = (changes: ReadonlyArray<FileChange.FileChange>): Approvals.Preview => {
  const preview: Approvals.Preview = { _tag: "Diff", diff: FileChange.diff(changes) }
  // whole contents are for user interfaces only: not enumerable, so they are never printed or stored
  return Object.defineProperty(preview, "changes", { value: changes, enumerable: false })
}

/**
 * Whether a write changes nothing and the agent may learn that.
 *
 * If the policy requires approval for the target itself, or the agent may not read it, approval is requested anyway: a
 * silent success would reveal the content.
 */
export const isNothing = (
  engine: Engine,
  { agent, rules }: Call,
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

/** Runs previews again. Gives the paths of the first one whose changes differ. */
export const lookAgain = Effect.fnUntraced(function*(
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

const without = (because: string): Previewed => ({
  preview: { _tag: "None", because },
  shown: undefined,
  isNothing: false
})

/** The reason a tool gives for a write it cannot preview; defects are not quoted. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  const message = typeof failure === "object" && failure !== null && "message" in failure ? failure.message : failure
  return typeof message === "string" ? message : "the tool could not preview it"
}
