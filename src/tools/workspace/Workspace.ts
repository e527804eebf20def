/**
 * A root folder that paths cannot leave.
 *
 * A path is looked at three times: as text (`..`), as a real path (links), and once more on the opened descriptor,
 * because links can be swapped between looking and opening. What a descriptor turned out to be is what is used.
 *
 * It does not stop hard links or mounts that bring foreign files under the root: to the file system those are inside.
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/** A root folder that paths cannot leave. */
export interface Workspace {
  /** Real path of the root. */
  readonly root: string
  /** Absolute path of the root as it was configured; may hold links. */
  readonly given: string
  /** What may be touched only with a person's permission. */
  readonly protect?: ReadonlyArray<string> | undefined
  /** What may be written like any other file, though other tools run it. */
  readonly unprotect?: ReadonlyArray<string> | undefined
  /** What a tool awaits before it writes a protected file. Default: nothing. */
  readonly beforeProtected?: Effect.Effect<void, never, Scope.Scope> | undefined
}

/** Characters that a path may have: what is longer no operating system opens. */
export const maxPathChars = 4_096

/** Makes a workspace of an existing folder; fails with `ConfigurationError` if the folder does not exist. */
export const make = Effect.fnUntraced(function*(
  root: string,
  guards: Pick<Workspace, "protect" | "unprotect"> = {}
): Effect.fn.Return<Workspace, ConfigurationError> {
  if (root === "" || root.includes("\0")) {
    return yield* wrongRoot(root === "" ? "is empty" : "holds a NUL character")
  }
  const given = NodePath.resolve(root)
  const missing = (cause: unknown) =>
    wrongRoot(
      WorkspaceFailure.codeOf(cause) === "ENOENT"
        ? `'${given}' does not exist`
        : `'${given}' cannot be opened (${WorkspaceFailure.codeOf(cause)})`
    )
  const real = yield* Effect.tryPromise({ try: () => NodeFsPromises.realpath(given), catch: missing })
  const stats = yield* Effect.tryPromise({ try: () => NodeFsPromises.stat(real), catch: missing })
  return stats.isDirectory()
    ? { root: real, given, protect: guards.protect, unprotect: guards.unprotect }
    : yield* wrongRoot(`'${given}' is not a folder`)
})

/**
 * Gives the absolute path that a path of the model means, looking at the text alone.
 *
 * Relative paths start at the root; absolute ones must lie in it. `a/../b` is `b`. Fails with `InvalidPath`, as for a
 * path that is too long to be looked at, or with `OutsideRoot`.
 */
export const locate = (self: Workspace, path: string): Effect.Effect<string, WorkspaceFailure.WorkspaceFailure> => {
  const isTooLong = path.length > maxPathChars
  if (path === "" || isTooLong || path.includes("\0")) {
    const problem = path === ""
      ? "is empty"
      : isTooLong
      ? `has ${path.length} characters, and may have ${maxPathChars}`
      : "holds a NUL character"
    return Effect.fail(
      WorkspaceFailure.make("InvalidPath", path, `The path ${problem}. Give a path relative to the workspace root.`)
    )
  }
  const absolute = NodePath.resolve(self.root, path)
  if (isWithin(self.root, absolute)) return Effect.succeed(absolute)
  return isWithin(self.given, absolute)
    ? Effect.succeed(NodePath.resolve(self.root, NodePath.relative(self.given, absolute)))
    : Effect.fail(outside(path))
}

/** Gives the real path of something that exists; fails with `NotFound` or, where links lead out, with `OutsideRoot`. */
export const realPath = Effect.fnUntraced(function*(
  self: Workspace,
  path: string
): Effect.fn.Return<string, WorkspaceFailure.WorkspaceFailure> {
  const absolute = yield* locate(self, path)
  const real = yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.realpath(absolute))
  return isWithin(self.root, real) ? real : yield* Effect.fail(outside(path))
})

/**
 * Gives the key of a path for `ToolAnnotations.Resources`: the real path of as much of it as exists, then the rest; a
 * link that leads to nothing is what it leads to. Never fails, so that a call that will be refused has a key too; that
 * of a path which is too long is its text.
 */
export const resourceKey = (self: Workspace, path: string): Effect.Effect<string> =>
  path.length > maxPathChars
    ? Effect.sync(() => NodePath.resolve(self.root, path))
    : Effect.flatMap(
      Effect.orElseSucceed(locate(self, path), () => NodePath.resolve(self.root, path)),
      (absolute) => follow(absolute, 40)
    )

/** Gives a path inside the root as results show it: relative, with `/`; the root is `.`. */
export const display = (self: Workspace, real: string): string => {
  const relative = NodePath.relative(self.root, real)
  return relative === "" ? "." : NodePath.sep === "/" ? relative : relative.split(NodePath.sep).join("/")
}

/** Tells whether an absolute path is the root or lies below it. */
export const isWithin = (root: string, absolute: string): boolean =>
  absolute === root || absolute.startsWith(root.endsWith(NodePath.sep) ? root : root + NodePath.sep)

/** Failure of a path that leads out of the root. */
export const outside = (path: string): WorkspaceFailure.WorkspaceFailure =>
  WorkspaceFailure.make(
    "OutsideRoot",
    path,
    "The path leads out of the workspace root, directly or through a link. Use a path inside the root, relative to the root."
  )

/** The real path of what exists of a path, then the rest, through at most so many links that lead to nothing. */
const follow = Effect.fnUntraced(function*(absolute: string, links: number): Effect.fn.Return<string> {
  const found = yield* existing(absolute)
  if (found === undefined) return absolute
  const { missing, path, real } = found
  if (missing === undefined) return real
  const link = yield* Effect.option(WorkspaceFailure.attempt(missing, () => NodeFsPromises.readlink(missing)))
  if (link._tag === "None" || links === 0) return NodePath.join(real, NodePath.relative(path, absolute))
  const folder = yield* follow(path, links - 1)
  return yield* follow(NodePath.resolve(folder, link.value, NodePath.relative(missing, absolute)), links - 1)
})

/**
 * What exists of a path, its real path, and the first part below that is not there. Where a folder is not there nothing
 * in it is, so of a long path few parts need to be looked at: first the last ones, in growing steps, then by halves.
 */
const existing = Effect.fnUntraced(function*(absolute: string) {
  const above = [absolute]
  for (let path = absolute; path !== NodePath.dirname(path);) above.push(path = NodePath.dirname(path))
  const realOf = (at: number) =>
    Effect.option(WorkspaceFailure.attempt(above[at]!, () => NodeFsPromises.realpath(above[at]!)))
  /** The highest that is not there. */
  let missing = -1
  let found: { readonly at: number; readonly real: string } | undefined
  for (let step = 1; found === undefined; step *= 2) {
    if (missing === above.length - 1) return undefined
    const at = Math.min(missing + step, above.length - 1)
    const real = yield* realOf(at)
    if (real._tag === "Some") found = { at, real: real.value }
    else missing = at
  }
  while (found.at - missing > 1) {
    const at = Math.floor((found.at + missing) / 2)
    const real: Option.Option<string> = yield* realOf(at)
    if (real._tag === "Some") found = { at, real: real.value }
    else missing = at
  }
  return { path: above[found.at]!, real: found.real, missing: above[missing] }
})

const wrongRoot = (problem: string): ConfigurationError =>
  new ConfigurationError({
    subject: "WorkspaceTools",
    problems: [{ path: "root", problem, expected: "the path of an existing folder that can be read" }]
  })
