/**
 * What a path of a workspace is to a policy: its real path relative to the root, protected where it guards other
 * things.
 *
 * A running tool asks about what it has opened, not about what was there when its call was judged: `judge` is how.
 */
import * as Effect from "effect/Effect"
import * as ToolContext from "../../core/contract/ToolContext.ts"
import type { Target } from "../../core/gates/PermissionPattern.ts"
import { executedBy } from "../command/ExecutedFiles.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/** A path as policies know it. */
export interface PathTarget extends Target {
  readonly kind?: "protected" | undefined
}

/** Whether a tool reads what is at a path, or writes to it. */
export type Access = "reads" | "writes"

/**
 * Gives what real paths of a workspace are to a policy, as its protected paths lie now: what lies in a `.git` and what
 * the host protects is protected, and from being written to also what is run.
 */
export const targets = (
  workspace: Workspace.Workspace,
  access: Access
): Effect.Effect<(real: string) => PathTarget> => {
  const found = (paths: ReadonlyArray<string> | undefined) =>
    Effect.forEach(paths ?? [], (path) => Workspace.resourceKey(workspace, path))
  return Effect.map(
    Effect.all([found(workspace.protect), found(workspace.unprotect)]),
    ([guarded, free]) => (real) => {
      const text = Workspace.isWithin(workspace.root, real) ? Workspace.display(workspace, real) : real
      const parts = text.split("/")
      // some file systems take any case for the same
      if (parts.some((it) => it.toLowerCase() === ".git") || guarded.some((path) => Workspace.isWithin(path, real))) {
        return { text, kind: "protected" }
      }
      if (access === "reads" || free.some((path) => Workspace.isWithin(path, real))) return { text }
      const by = executedBy(parts)
      if (by === "themselves") return { text, kind: "protected" }
      return by === "commands" ? { text, runBy: "run_command" } : { text }
    }
  )
}

/** What a running call may touch. */
export interface Judge {
  /**
   * Tells whether the call may touch what lies at a real path. `within` is the real path of what it was called for:
   * what was said to that counts for what is in it.
   */
  readonly permits: (real: string, within?: string) => Effect.Effect<boolean>
  /** Fails where the call may not touch what lies at a real path, though it was let through for `path`. */
  readonly check: (real: string, path: string) => Effect.Effect<void, WorkspaceFailure.WorkspaceFailure>
}

/**
 * Makes the judge of the running call: the policy that judged it (`ToolContext.permits`), asked about what is there
 * now.
 */
export const judge = (workspace: Workspace.Workspace, access: Access): Effect.Effect<Judge> =>
  Effect.map(
    Effect.all([ToolContext.ToolContext, targets(workspace, access)]),
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

/** Says how many things were left out because the policy does not allow them. */
export const leftOut = (count: number, what: "file" | "entry"): string => {
  const things = count === 1 ? `1 ${what} is` : `${count} ${what === "file" ? "files" : "entries"} are`
  return `${things} omitted: the policy does not permit ${count === 1 ? "it" : "them"} without an approval.`
}

const elsewhere = (path: string): WorkspaceFailure.WorkspaceFailure =>
  WorkspaceFailure.make(
    "ChangedMeanwhile",
    path,
    "The target of the path changed after the call was permitted. Check the path again and retry."
  )
