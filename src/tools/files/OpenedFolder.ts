/**
 * Folders that a confined command has closed to their owner (`chmod 000`), so that nobody can look through them or move
 * anything out. Links are never followed. Linux only, as the sandbox is.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeFs from "node:fs"
import * as NodePath from "node:path"
import type * as Workspace from "../workspace/Workspace.ts"
import type * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"

/** Opens a folder of a workspace to its owner. */
export const open = (
  workspace: Workspace.Workspace,
  folder: string
): Effect.Effect<void, WorkspaceFailure.WorkspaceFailure, Scope.Scope> =>
  folder === workspace.root
    ? Effect.sync(() => allow(folder))
    : Effect.map(
      Descriptor.openReal(workspace, NodePath.dirname(folder), "folder"),
      ({ pinned }) => allow(NodePath.join(pinned, NodePath.basename(folder)))
    )

/** Makes an opened folder writable for its owner until the scope closes. */
export const whileWritable = (pinned: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.sync(() =>
      Result.getOrUndefined(Result.try(() => {
        const { mode } = NodeFs.statSync(pinned)
        if ((mode & 0o300) !== 0o300) NodeFs.chmodSync(pinned, (mode & 0o7777) | 0o300)
        return mode & 0o7777
      }))
    ),
    (mode) => Effect.sync(() => mode === undefined ? undefined : Result.try(() => NodeFs.chmodSync(pinned, mode)))
  ))

/** Opens a folder and all in it to its owner, as far as that is possible. */
export const openAll = (folder: string): void =>
  allow(folder, (pinned) => {
    for (const entry of NodeFs.readdirSync(pinned, { withFileTypes: true })) {
      if (entry.isDirectory()) openAll(NodePath.join(pinned, entry.name))
    }
  })

/** `O_PATH`: no permission is needed to open what is to be opened. */
const path = 0o10000000

const allow = (folder: string, then: (pinned: string) => void = () => undefined): void =>
  void Result.try(() => {
    const descriptor = NodeFs.openSync(
      folder,
      path | NodeFs.constants.O_DIRECTORY | NodeFs.constants.O_NOFOLLOW
    )
    try {
      const pinned = `/proc/self/fd/${descriptor}`
      NodeFs.chmodSync(pinned, (NodeFs.statSync(pinned).mode & 0o7777) | 0o700)
      then(pinned)
    } finally {
      NodeFs.closeSync(descriptor)
    }
  })
