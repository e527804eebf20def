/**
 * The tool `find_files`: files whose paths match a glob.
 *
 * It looks where `search_text` looks: hidden files too, `.git` and
 * `node_modules` only when asked for. No file is opened.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import * as FileTree from "./FileTree.ts"
import * as PathTarget from "./PathTarget.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/** Bounds of one call. */
export const limits = {
  /** Files given by default, and most that can be asked for. */
  files: { default: 200, most: 2_000 },
  /** Characters of all paths together. */
  size: 400_000,
  /** Files and folders looked at. */
  entries: FileTree.limits.entries
} as const

/** The tool `find_files`. */
export const tool = Tool.make("find_files", {
  description:
    "Finds files of the workspace by a glob over their paths, sorted by path. Hidden files are found; .git " +
    "and node_modules are only looked into when path or the start of the glob names them; links are neither followed " +
    "nor returned. Files that the policy does not allow are left out and counted, whatever the glob. To search in files, use search_text.",
  parameters: Schema.Struct({
    glob: Schema.String.annotate({
      description: "Glob over paths from the workspace root, such as src/**/*.{ts,tsx}; without a slash it matches " +
        "names in any folder, such as *.md"
    }),
    path: Schema.optionalKey(
      Schema.String.annotate({
        description: "Folder to look in, relative to the workspace root; default the root. The glob still starts at " +
          "the root"
      })
    ),
    maxFiles: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
        description: "How many files to return; default 200, at most 2,000"
      })
    )
  }),
  success: Schema.Struct({
    /** Paths relative to the workspace root, in the order of their folders and names. */
    files: Schema.Array(Schema.String),
    /** Files left out because the policy does not allow them, whatever the glob; absent if there are none. */
    notPermitted: Schema.optionalKey(Schema.Int),
    /** Whether there may be more files. */
    truncated: Schema.Boolean,
    /** What is missing, and how to see it. */
    note: Schema.optionalKey(Schema.String)
  }),
  failure: WorkspaceFailure.WorkspaceFailure
})
  .annotate(Tool.Title, "Find files")
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.OpenWorld, false)
  .annotate(ToolAnnotations.Closed, true)
  .annotate(ToolAnnotations.ActsAs, ["list_directory"])
  .annotate(ToolAnnotations.Timeout, "30 seconds")

/**
 * Makes the handler of `find_files` for a workspace.
 *
 * **Details**
 *
 * Fails with `InvalidPattern` for a glob that cannot be used, and as
 * `Descriptor.open` for the folder. A folder below it that cannot be read is
 * counted in `note`.
 */
export const make = (
  workspace: Workspace.Workspace
): (params: Tool.Parameters<typeof tool>) => Effect.Effect<
  Tool.Success<typeof tool>,
  WorkspaceFailure.WorkspaceFailure
> =>
  Effect.fnUntraced(function*(params) {
    const filter = yield* FileTree.filterOf(params.glob)
    const judge = yield* PathTarget.judge(workspace, "reads")
    const top = yield* Workspace.realPath(workspace, params.path ?? ".")
    const tree = FileTree.make(workspace, top, "directory", filter, (real) => judge.permits(real, top))
    const room = Math.min(params.maxFiles ?? limits.files.default, limits.files.most)
    const files: Array<string> = []
    let size = 0
    let unread = 0
    let notPermitted = 0
    let full = false
    while (true) {
      const next = yield* tree.next(1)
      unread += next.skipped
      notPermitted += next.notPermitted
      const [file] = next.files
      if (file === undefined) break
      const path = Workspace.display(workspace, file)
      full = files.length === room || size + path.length > limits.size
      if (full) break
      files.push(path)
      size += path.length
    }
    const note = noteOf(full, tree.isCut(), unread, notPermitted)
    return {
      files,
      ...(notPermitted === 0 ? {} : { notPermitted }),
      truncated: full || tree.isCut(),
      ...(note === "" ? {} : { note })
    }
  })

// Utilities

const noteOf = (full: boolean, cut: boolean, unread: number, notPermitted: number): string =>
  [
    ...full ? ["There are more files. Narrow the glob or path, or raise maxFiles (at most 2,000)."] : [],
    ...cut ? ["Not every folder was searched completely. Narrow path or the start of the glob."] : [],
    ...unread > 0 ? [`${unread} ${unread === 1 ? "folder" : "folders"} could not be read.`] : [],
    ...notPermitted > 0 ? [PathTarget.leftOut(notPermitted, "file")] : []
  ].join(" ")
