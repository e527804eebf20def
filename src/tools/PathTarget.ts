/**
 * What a path of a workspace is to a policy: its real path relative to the
 * root, protected where it guards other things.
 *
 * A running tool asks about what it has opened, not about what was there when
 * its call was judged: `judge` is how.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Target } from "../policy/PermissionPattern.ts"
import * as ToolContext from "../ToolContext.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * Gives what real paths of a workspace are to a policy, as its protected paths
 * lie now.
 *
 * @category targets
 * @since 0.1.0
 */
export const targets = (workspace: Workspace.Workspace): Effect.Effect<(real: string) => Target> =>
  Effect.map(
    Effect.forEach(workspace.protect ?? [], (path) => Workspace.resourceKey(workspace, path)),
    (guarded) => (real) => {
      const text = Workspace.isWithin(workspace.root, real) ? Workspace.display(workspace, real) : real
      // some file systems take any case for the same
      const isGuarded = text.split("/").some((part) => part.toLowerCase() === ".git") ||
        guarded.some((path) => Workspace.isWithin(path, real))
      return isGuarded ? { text, kind: "protected" } : { text }
    }
  )

/**
 * What a running call may touch.
 *
 * @category models
 * @since 0.1.0
 */
export interface Judge {
  /**
   * Tells whether the call may touch what lies at a real path. `within` is the
   * real path of what it was called for: what was said to that counts for what
   * is in it.
   */
  readonly permits: (real: string, within?: string) => Effect.Effect<boolean>
  /** Fails where the call may not touch what lies at a real path, though it was let through for `path`. */
  readonly check: (real: string, path: string) => Effect.Effect<void, WorkspaceFailure.WorkspaceFailure>
}

/**
 * Makes the judge of the running call: the policy that judged it
 * (`ToolContext.permits`), asked about what is there now.
 *
 * @category judging
 * @since 0.1.0
 */
export const judge = (workspace: Workspace.Workspace): Effect.Effect<Judge> =>
  Effect.map(
    Effect.all([ToolContext.ToolContext, targets(workspace)]),
    ([context, targetOf]) => {
      const permits: Judge["permits"] = (real, within = real) =>
        Effect.map(
          context.permits(targetOf(real), {
            within: targetOf(Workspace.isWithin(within, real) ? within : real).text
          }),
          (answer) => answer === "allow"
        )
      return {
        permits,
        check: (real, path) =>
          Effect.flatMap(permits(real), (isPermitted) => isPermitted ? Effect.void : Effect.fail(elsewhere(path)))
      }
    }
  )

/**
 * Says how many things were left out because the policy does not allow them.
 *
 * @category formatting
 * @since 0.1.0
 */
export const leftOut = (count: number, what: "file" | "entry"): string => {
  const things = count === 1 ? `1 ${what} is` : `${count} ${what === "file" ? "files" : "entries"} are`
  return `${things} left out: the policy does not allow ${count === 1 ? "it" : "them"} here without asking.`
}

// Utilities

const elsewhere = (path: string): WorkspaceFailure.WorkspaceFailure =>
  WorkspaceFailure.make(
    "ChangedMeanwhile",
    path,
    "The path leads to something else now than what the call was allowed for. Look again and retry."
  )
