/** What a call would write, shown to people before it happens, and looked at once more when it does. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../../internal/detached.ts"
import type * as Approvals from "../gates/Approvals.ts"
import type { GateCall } from "../gates/Gate.ts"
import * as Permissions from "../gates/Permissions.ts"
import * as FileChange from "../vocabulary/FileChange.ts"
import type { Call, Shown } from "./Call.ts"
import type { Engine } from "./Engine.ts"

/** A preview, or why there is none. */
export interface Previewed {
  readonly preview: Approvals.Preview
  readonly shown: Shown | undefined
  /** The call would leave everything as it is: nobody needs to be asked about that. */
  readonly isNothing: boolean
}

/** Milliseconds that a preview may take. */
export const previewMillis = 5_000

/** Gives what a call would write, if its tool can tell, for people to see. Without one it says why. */
export const preview = (
  engine: Engine,
  call: Call,
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
        // nobody can tell what a tool does besides editing
        isNothing: call.tool!.edits && isNothing(engine, call, call.gateCall!, exit.value.changes)
      }
      : without(reasonOf(exit.cause))
  })
}

/** Runs a preview and gives the files it is about, and how to make it once more. */
export const made = <E>(again: Effect.Effect<ReadonlyArray<FileChange.FileChange>, E>) =>
  Effect.flatMap(again, (changes) =>
    FileChange.isChanges(changes)
      ? Effect.succeed({ changes, shown: { again, fingerprint: FileChange.fingerprint(changes) } })
      : Effect.die(new TypeError("a preview has to give { path, before, after }s")))

/** Changes as people see them. The diff is made only when somebody is shown it. */
export const seen = (changes: ReadonlyArray<FileChange.FileChange>): Approvals.Preview => {
  const preview: Approvals.Preview = { _tag: "Diff", diff: FileChange.diff(changes) }
  // whole contents are for whoever shows them, and in nothing that is printed or kept
  return Object.defineProperty(preview, "changes", { value: changes, enumerable: false })
}

/**
 * Whether a write changes nothing and the agent may be told so. What the policy asks
 * about for its own sake, or the agent may not look at, is asked about even so: a
 * silent success would tell what is there.
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

/** Makes previews once more; gives the paths of the first whose files are not the same. */
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

// Utilities

const without = (because: string): Previewed => ({
  preview: { _tag: "None", because },
  shown: undefined,
  isNothing: false
})

/** What a tool says of a write that it cannot preview; of a defect nothing. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
  const message = typeof failure === "object" && failure !== null && "message" in failure ? failure.message : failure
  return typeof message === "string" ? message : "the tool could not tell"
}
