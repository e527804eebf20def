/**
 * The tool `find_files`: files whose paths match a glob.
 *
 * It looks where `search_text` looks: hidden files too, `.git` and `node_modules` only when asked for. No file is
 * opened.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import * as PathTarget from "../workspace/PathTarget.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as FileTool from "./FileTool.ts"
import * as FileTree from "./FileTree.ts"

/** Bounds of one call. */
export const limits = {
  /** Files given by default, and most that can be asked for. */
  files: { default: 200, most: 2_000 },
  /** Characters of all paths together. */
  size: 400_000,
  /** Files and folders looked at. */
  entries: FileTree.limits.entries
} as const

export const tool = FileTool.reads(
  Tool.make("find_files", {
    description:
      "Finds files in the workspace by a glob over their paths, sorted by path. Hidden files are included. .git and " +
      "node_modules are searched only if path or the start of the glob names them. Links are neither followed nor " +
      "returned. Files that the policy does not permit are omitted and counted, even if they do not match the glob. To " +
      "search the content of files, use search_text.",
    parameters: Schema.Struct({
      glob: Schema.String.annotate({
        description: "Glob over paths from the workspace root, such as src/**/*.{ts,tsx}; without a slash it matches " +
          "names in any folder, such as *.md"
      }),
      path: FileTool.text(
        "Folder to search, relative to the workspace root; default the root. The glob still starts at the root"
      ),
      maxFiles: FileTool.count("Number of files to return; default 200, at most 2,000")
    }),
    success: Schema.Struct({
      /** Paths relative to the workspace root, in the order of their folders and names. */
      files: Schema.Array(Schema.String),
      /** Whether there may be more files. */
      truncated: Schema.Boolean,
      ...FileTool.omissions
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "Find files"
)
  .annotate(ToolAnnotations.ActsAs, ["list_directory"])
  .annotate(ToolAnnotations.Timeout, "30 seconds")

/**
 * Makes the handler of `find_files` for a workspace.
 *
 * Fails with `InvalidPattern` for a glob that cannot be used, and as `Descriptor.open` for the folder. A folder below
 * it that cannot be read is counted in `note`.
 */
export const make: FileTool.Handler<typeof tool> = (workspace) =>
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
    const notes = notesOf(full, tree.isCut(), unread, notPermitted)
    return { files, truncated: full || tree.isCut(), ...FileTool.omissionsOf(notPermitted, notes) }
  })

const notesOf = (full: boolean, cut: boolean, unread: number, notPermitted: number): ReadonlyArray<string> => [
  ...full ? ["There are more files. Narrow the glob or path, or raise maxFiles (at most 2,000)."] : [],
  ...cut ? ["Some folders were not searched completely. Narrow path or the start of the glob."] : [],
  ...unread > 0 ? [`${unread} ${unread === 1 ? "folder" : "folders"} could not be read.`] : [],
  ...notPermitted > 0 ? [PathTarget.leftOut(notPermitted, "file")] : []
]
