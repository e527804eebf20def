/**
 * Going through the files below a folder, in the order of names, with a glob.
 *
 * Links are not followed. `.git` and `node_modules` are entered only where the folder asked for or the start of the
 * glob names them. A glob is matched in a time that its length and that of the path bound, and others get their turn
 * after each file: it can be interrupted whatever the glob is.
 */
import * as Effect from "effect/Effect"
import * as Glob from "effect/Glob"
import * as Result from "effect/Result"
import * as NodePath from "node:path"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"
import { notEntered } from "./ListDirectory.ts"

/** Bounds of one walk. */
export const limits = {
  /** Names read in one folder. */
  names: 20_000,
  /** Names read in all folders. */
  entries: 200_000,
  /** Characters of a glob, and what its braces may stand for. */
  glob: 200,
  alternatives: 100
} as const

/** Which files are wanted, by their paths from the workspace root. */
export interface Filter {
  readonly matches: (path: string) => boolean
  /** The folder that all of them lie in, as far as the glob says it; the empty string is the root. */
  readonly start: string
}

/** Every file. */
export const everything: Filter = { matches: () => true, start: "" }

/**
 * Makes the filter of a glob; without a slash it is about names in any folder. Fails with `InvalidPattern` for one that
 * is too long, stands for too much, or cannot match any file.
 */
export const filterOf = (glob: string): Effect.Effect<Filter, WorkspaceFailure.WorkspaceFailure> => {
  const problem = problemOf(glob)
  if (problem !== undefined) return Effect.fail(WorkspaceFailure.make("InvalidPattern", glob, problem))
  const compiled = Glob.make(glob.includes("/") ? glob : `**/${glob}`, { dot: true })
  const folders = glob.split("/").slice(0, -1)
  const open = folders.findIndex((name) => /[*?[\]{}\\]/.test(name))
  const start = (open === -1 ? folders : folders.slice(0, open)).filter((name) => name !== "" && name !== ".")
  return Effect.succeed({ matches: (path) => Glob.match(compiled, path), start: start.join("/") })
}

/** The files below a folder, or one file. */
export interface FileTree {
  /**
   * Gives at most so many of the next files, as real paths, and none at the end. `skipped` counts folders that could
   * not be read, `notPermitted` files that the call may not touch, whatever the filter says of their names.
   */
  readonly next: (
    most: number
  ) => Effect.Effect<
    { readonly files: ReadonlyArray<string>; readonly skipped: number; readonly notPermitted: number },
    WorkspaceFailure.WorkspaceFailure
  >
  /** Whether names were left out because there are too many. */
  readonly isCut: () => boolean
}

/**
 * Makes the tree below a real path. A file that was asked for is given whatever the filter says; a folder that was
 * asked for and cannot be read fails. After `entries` names no further folder is read.
 */
export const make = (
  workspace: Workspace.Workspace,
  top: string,
  kind: "file" | "directory",
  { matches, start }: Filter,
  permits: (real: string) => Effect.Effect<boolean>,
  entries: number = limits.entries
): FileTree => {
  const stack: Array<{ readonly real: string; readonly kind: "file" | "directory" }> = [{ real: top, kind }]
  let seen = 0
  let cut = false
  const isBelow = (path: string) => start === "" || path.startsWith(`${start}/`)
  const isEntered = (path: string, name: string) =>
    start === path || start.startsWith(`${path}/`) || (!notEntered.has(name) && isBelow(path))
  const next = Effect.fnUntraced(function*(most: number) {
    const files: Array<string> = []
    let skipped = 0
    let notPermitted = 0
    while (files.length < most) {
      const entry = stack.pop()
      if (entry === undefined) break
      if (entry.kind === "file") {
        if (!(yield* permits(entry.real))) notPermitted++
        else if (entry.real === top || matches(Workspace.display(workspace, entry.real))) files.push(entry.real)
        yield* Effect.yieldNow
        continue
      }
      if (seen >= entries) {
        cut = true
        continue
      }
      const names = yield* Effect.result(readFolder(workspace, entry.real, Math.min(limits.names, entries - seen)))
      if (Result.isFailure(names)) {
        if (entry.real === top) return yield* Effect.fail(names.failure)
        skipped++
        continue
      }
      seen += names.success.names.length
      cut = cut || !names.success.complete
      const { real } = names.success
      const folder = Workspace.display(workspace, real)
      for (const { kind, name } of names.success.names.toReversed()) {
        const path = folder === "." ? name : `${folder}/${name}`
        if ((kind === "file" && isBelow(path)) || (kind === "directory" && isEntered(path, name))) {
          stack.push({ real: NodePath.join(real, name), kind })
        }
      }
    }
    return { files, skipped, notPermitted }
  })
  return { next, isCut: () => cut }
}

const problemOf = (glob: string): string | undefined => {
  if (glob === "" || glob.length > limits.glob) {
    return `The glob has ${glob.length} characters. Use one of 1 to ${limits.glob}, such as src/**/*.ts.`
  }
  if (glob.startsWith("/") || glob.split("/").includes("..")) {
    return "The glob leads out of the workspace. Write it from the workspace root, such as src/**/*.ts."
  }
  if (glob.endsWith("/")) return `The glob names folders. For the files below them, write ${glob}**.`
  // never fewer than the braces stand for, however they are nested or escaped
  const braces = glob.split("{").length - 1
  const commas = glob.split(",").length - 1
  return braces > 0 && (1 + commas / braces) ** braces > limits.alternatives
    ? `The braces of the glob expand to too many alternatives. Use at most ${limits.alternatives}.`
    : undefined
}

const readFolder = Effect.fnUntraced(function*(workspace: Workspace.Workspace, real: string, limit: number) {
  const folder = yield* Descriptor.openReal(workspace, real, "folder")
  return { ...yield* Descriptor.readNames(workspace, folder, limit), real: folder.real }
}, Effect.scoped)
