/** The folder of a confined command: what it may not change there, and what becomes of it at the end. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as GuardedFiles from "../files/GuardedFiles.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import type * as Sandbox from "./Sandbox.ts"

/** Looks through the folder of a command. Fails where it contains the home folder, which could then not be hidden. */
export const find = (
  { isHidden = () => false, workspace }: Sandbox.Command,
  { hasSecrets, home }: {
    readonly home: string | undefined
    /** Tells whether a file holds secrets, by its path. */
    readonly hasSecrets: (path: string) => boolean
  }
): Effect.Effect<GuardedFiles.GuardedFiles, WorkspaceFailure.WorkspaceFailure> =>
  workspace === undefined
    ? Effect.succeed(nothingFound)
    : home !== undefined && Workspace.isWithin(workspace.root, home)
    ? failed("The workspace contains the home folder, so it cannot be hidden")
    : GuardedFiles.find(workspace, { isHidden: (path) => isHidden(path) || hasSecrets(path) })

const nothingFound: GuardedFiles.GuardedFiles = {
  guarded: [],
  links: new Map(),
  linked: [],
  hidden: [],
  identities: new Map(),
  gitFolder: undefined
}

/** Moves away what a command has made and may not make, and finds what others have replaced meanwhile. */
export const setAside = (
  { isExpected = () => false, workspace }: Sandbox.Command,
  found: GuardedFiles.GuardedFiles
): Effect.Effect<Sandbox.Finished> =>
  workspace === undefined
    ? Effect.succeed({})
    : Effect.map(
      GuardedFiles.setAside(workspace, found, isExpected),
      (setAside): Sandbox.Finished => ({
        hidden: found.hidden.map((it) => Workspace.display(workspace, it)),
        replaced: GuardedFiles.replaced(workspace, found),
        ...setAside === undefined ? {} : { setAside }
      })
    )

/**
 * Runs once, when somebody asks for it or when the scope closes, after the command has been ended. Before the command
 * has begun, nothing is its doing.
 */
export const finishing = Effect.fnUntraced(function*(
  work: Effect.Effect<Sandbox.Finished>,
  state: { readonly hasBegun: boolean }
): Effect.fn.Return<Effect.Effect<Sandbox.Finished>, never, Scope.Scope> {
  const finish = yield* Effect.cached(work)
  yield* Effect.addFinalizer(() => Effect.suspend(() => state.hasBegun ? finish : Effect.void))
  return finish
})

/** The sandbox of one command could not be made. */
export const failed = (why: string): Effect.Effect<never, WorkspaceFailure.WorkspaceFailure> =>
  Effect.fail(WorkspaceFailure.make(
    "SandboxFailed",
    "",
    `The sandbox could not be made, so the command was not started: ${why}.`
  ))
