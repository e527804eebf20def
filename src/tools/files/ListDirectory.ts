/**
 * The tool `list_directory`: what is in a folder, some levels deep.
 *
 * Links are named, never followed. `.git` and `node_modules` are named, and listed only when they are the folder asked
 * for.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as PathTarget from "../workspace/PathTarget.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"
import * as FileTool from "./FileTool.ts"

/** Most entries that one call gives. */
export const maxEntries = 1_000

/** Names after which one call stops counting what it does not give. */
export const maxNames = 20_000

/** Deepest level that one call gives. */
export const maxDepth = 20

/** Folders that are not entered on the way through a tree. */
export const notEntered: ReadonlySet<string> = new Set([".git", "node_modules"])

export const Entry = Schema.Struct({
  /** Relative to the workspace root. */
  path: Schema.String,
  type: Schema.Literals(["file", "directory", "link", "other"]),
  /** Bytes; files only. */
  size: Schema.optionalKey(Schema.Int),
  /** Where a link leads; absent if that is outside the root, nowhere, or not allowed. */
  target: Schema.optionalKey(Schema.String)
})

export const tool = FileTool.reads(
  Tool.make("list_directory", {
    description:
      "Lists a folder of the workspace, including hidden entries, sorted by path. One call returns at most 1,000 " +
      "entries, upper levels first, and the number of omitted ones. Links are marked and not followed. .git and " +
      "node_modules are listed only if path names them. Entries that the policy does not permit are omitted and counted.",
    parameters: Schema.Struct({
      path: FileTool.text("Path of the folder, relative to the workspace root; default the root"),
      depth: FileTool.count("Number of levels to list; default 1 (the folder itself), at most 20")
    }),
    success: Schema.Struct({
      path: Schema.String,
      entries: Schema.Array(Entry),
      /** Entries that were seen and are not in `entries`. */
      omitted: Schema.Int,
      ...FileTool.omissions
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "List directory"
)

/**
 * Makes the handler of `list_directory` for a workspace.
 *
 * Fails as `Descriptor.open` for the folder asked for. A folder below it that cannot be read, or is gone, is named in
 * `note`.
 */
export const make: FileTool.Handler<typeof tool> = (workspace) =>
  Effect.fnUntraced(function*(params) {
    const path = params.path ?? "."
    const judge = yield* PathTarget.judge(workspace, "reads")
    const top = yield* Workspace.realPath(workspace, path)
    const entries: Array<typeof Entry.Type> = []
    const unread: Array<string> = []
    let seen = 0
    let notPermitted = 0
    let complete = true
    let level = [top]
    for (let depth = Math.min(params.depth ?? 1, maxDepth); depth > 0 && level.length > 0 && complete; depth--) {
      const below: Array<string> = []
      for (const folder of level) {
        const read = readFolder(
          workspace,
          folder,
          folder === top ? path : undefined,
          { names: maxNames - seen, entries: maxEntries - entries.length },
          { check: judge.check, permits: (real) => judge.permits(real, top) }
        )
        const result = yield* Effect.result(read)
        if (Result.isFailure(result)) {
          if (folder === top) return yield* Effect.fail(result.failure)
          unread.push(Workspace.display(workspace, folder))
          continue
        }
        const found = result.success
        seen += found.count
        notPermitted += found.notPermitted
        complete = complete && found.complete
        for (const entry of found.entries) entries.push(entry)
        for (const it of found.folders) below.push(it)
        if (!complete) break
      }
      level = below
    }
    entries.sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : 0)
    const omitted = seen - entries.length
    return {
      path: Workspace.display(workspace, top),
      entries,
      omitted,
      ...FileTool.omissionsOf(notPermitted, notesOf(omitted - notPermitted, notPermitted, complete, unread))
    }
  })

const readFolder = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  real: string,
  asked: string | undefined,
  limits: { readonly names: number; readonly entries: number },
  judge: PathTarget.Judge
) {
  const folder = yield* Descriptor.openReal(workspace, real, "folder", asked)
  if (asked !== undefined || folder.real !== real) yield* judge.check(folder.real, asked ?? real)
  const { complete, names } = yield* Descriptor.readNames(workspace, folder, limits.names)
  const permitted = yield* Effect.filter(names, ({ name }) => judge.permits(NodePath.join(folder.real, name)))
  const entries = yield* Effect.forEach(
    permitted.slice(0, limits.entries),
    (name) => describe(workspace, folder, name, judge),
    { concurrency: 16 }
  )
  const folders = permitted.flatMap((it) =>
    it.kind === "directory" && !notEntered.has(it.name) ? [NodePath.join(folder.real, it.name)] : []
  )
  return { count: names.length, notPermitted: names.length - permitted.length, complete, entries, folders }
}, Effect.scoped)

/** An entry that vanished or that cannot be looked at is described by what its name said. */
const describe = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  folder: Descriptor.Descriptor,
  name: Descriptor.Name,
  judge: PathTarget.Judge
): Effect.fn.Return<typeof Entry.Type> {
  const path = Workspace.display(workspace, NodePath.join(folder.real, name.name))
  const entry = { path, type: name.kind }
  if (name.kind === "file") {
    const stats = yield* Effect.option(
      WorkspaceFailure.attempt(path, () => NodeFsPromises.lstat(NodePath.join(folder.pinned, name.name)))
    )
    return stats._tag === "Some" ? { ...entry, size: stats.value.size } : entry
  }
  if (name.kind === "link") {
    const target = yield* Effect.option(Workspace.realPath(workspace, NodePath.join(folder.real, name.name)))
    return target._tag === "Some" && (yield* judge.permits(target.value))
      ? { ...entry, target: Workspace.display(workspace, target.value) }
      : entry
  }
  return entry
})

const notesOf = (
  omitted: number,
  notPermitted: number,
  complete: boolean,
  unread: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const sentences: Array<string> = []
  if (omitted > 0 || !complete) {
    const many = complete ? `${omitted}` : `At least ${Math.max(omitted, 1)}`
    sentences.push(
      `${many} more ${omitted === 1 ? "entry is" : "entries are"} not shown. List a deeper folder, or fewer levels.`
    )
  }
  if (notPermitted > 0) sentences.push(PathTarget.leftOut(notPermitted, "entry"))
  if (unread.length > 0) {
    const shown = unread.slice(0, 10).join(", ")
    sentences.push(`Not readable: ${shown}${unread.length > 10 ? ` and ${unread.length - 10} more` : ""}.`)
  }
  return sentences
}
