/**
 * The tool `search_text`: lines that match a regular expression.
 *
 * Files are read here and matched in a separate thread, which is killed with the call: a pattern that backtracks
 * forever neither blocks the program nor survives its call. Matches do not span lines.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as ToolContext from "../../core/contract/ToolContext.ts"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import * as PathTarget from "../workspace/PathTarget.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"
import * as FileTool from "./FileTool.ts"
import * as FileTree from "./FileTree.ts"
import { isBinary } from "./ReadFile.ts"
import * as SearchWorker from "./SearchWorker.ts"

/** Bounds of one call. */
export const limits = {
  /** Matches given by default, and most that can be asked for. */
  matches: { default: 200, most: 1_000 },
  /** Most lines of context before and after a match. */
  contextLines: 10,
  /** Characters of all texts together. */
  size: 400_000,
  /** Characters shown of a line. */
  lineLength: 500,
  /** Bytes of a file; larger ones are skipped. */
  fileSize: 5_000_000,
  /** Files searched or skipped. */
  files: 50_000,
  /** Characters of the pattern. */
  pattern: 1_000
} as const

export const tool = FileTool.reads(
  Tool.make("search_text", {
    description:
      "Searches the text files of the workspace, line by line, with a JavaScript regular expression. Hidden " +
      "files are searched. .git and node_modules are searched only if path or the start of the glob names them. Links " +
      "are not followed. Binary files and files over 5,000,000 bytes are skipped and counted. Files that the policy " +
      "does not permit are omitted and counted, even if they do not match the glob. Long lines are cut around the match.",
    parameters: Schema.Struct({
      pattern: Schema.String.annotate({ description: "JavaScript regular expression without slashes and flags" }),
      path: FileTool.text("File or folder to search, relative to the workspace root; default the root"),
      glob: FileTool.text(
        "Only files whose path from the workspace root matches, such as src/**/*.{ts,tsx}; without a slash it matches " +
          "names in any folder, such as *.md"
      ),
      ignoreCase: FileTool.flag("Whether to ignore case; default false"),
      contextLines: Schema.optionalKey(
        Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
          description: "Lines to show before and after each match; default 0, at most 10"
        })
      ),
      maxMatches: FileTool.count("Number of matching lines to return; default 200, at most 1,000")
    }),
    success: Schema.Struct({
      /** In the order of paths and lines. */
      matches: Schema.Array(Schema.Struct({
        path: Schema.String,
        /** From 1. */
        line: Schema.Int,
        text: Schema.String,
        before: Schema.optionalKey(Schema.Array(Schema.String)),
        after: Schema.optionalKey(Schema.Array(Schema.String))
      })),
      filesSearched: Schema.Int,
      /** Files and folders left out: binary, too large, not readable, or gone. */
      filesSkipped: Schema.Int,
      /** Whether there may be more matches. */
      truncated: Schema.Boolean,
      ...FileTool.omissions
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "Search text"
)
  .annotate(ToolAnnotations.ActsAs, ["read_file"])
  .annotate(ToolAnnotations.Timeout, "30 seconds")

/**
 * Makes the handler of `search_text` for a workspace.
 *
 * Fails with `InvalidPattern` for a pattern or glob that cannot be used, and as `Workspace.realPath` for the path.
 */
export const make: FileTool.Handler<typeof tool> = (workspace) =>
  Effect.fnUntraced(function*(params) {
    const context = yield* ToolContext.ToolContext
    const flags = yield* flagsOf(params.pattern, params.ignoreCase === true)
    const filter = params.glob === undefined ? FileTree.everything : yield* FileTree.filterOf(params.glob)
    const judge = yield* PathTarget.judge(workspace, "reads")
    const top = yield* Workspace.realPath(workspace, params.path ?? ".")
    const worker = yield* SearchWorker.make({
      source: params.pattern,
      flags,
      contextLines: Math.min(params.contextLines ?? 0, limits.contextLines),
      lineLength: limits.lineLength
    })
    const room = Math.min(params.maxMatches ?? limits.matches.default, limits.matches.most)
    const permits = (real: string) => judge.permits(real, top)
    const kind = yield* kindOf(workspace, top, params.path ?? ".")
    const tree = FileTree.make(workspace, top, kind, filter, permits)
    const found: Array<SearchWorker.Match> = []
    let size = 0
    let searched = 0
    let skipped = 0
    let notPermitted = 0
    let full = false
    let reported = 0
    while (!full && searched + skipped < limits.files) {
      const next = yield* tree.next(batchSize)
      skipped += next.skipped
      notPermitted += next.notPermitted
      if (next.files.length === 0) break
      const files = yield* Effect.forEach(
        next.files,
        (real) => readFile(workspace, real, permits),
        { concurrency: 8 }
      )
      const readable = files.filter((file) => typeof file === "object")
      const refused = files.filter((file) => file === "notPermitted").length
      const reply = yield* worker.search(readable, { matches: room - found.length, size: limits.size - size })
      for (const match of reply.matches) found.push(match)
      size += reply.size
      searched += reply.files
      notPermitted += refused
      skipped += files.length - readable.length - refused
      full = reply.full
      if (searched >= reported + 100) {
        reported = searched
        yield* context.progress({ progress: searched, message: `${searched} files searched, ${found.length} matches` })
      }
    }
    const stopped = searched + skipped >= limits.files
    const more = full
      ? "There are more matches. Narrow the pattern, path or glob, or raise maxMatches."
      : stopped || tree.isCut()
      ? "Not every file was searched. Narrow the path."
      : undefined
    const notes = [
      ...more === undefined ? [] : [more],
      ...notPermitted === 0 ? [] : [PathTarget.leftOut(notPermitted, "file")]
    ]
    return {
      matches: found,
      filesSearched: searched,
      filesSkipped: skipped,
      truncated: more !== undefined,
      ...FileTool.omissionsOf(notPermitted, notes)
    }
  }, Effect.scoped)

/** Files per message to the thread. */
const batchSize = 16

const invalid = (pattern: string, problem: string, right: string) =>
  Effect.fail(WorkspaceFailure.make("InvalidPattern", pattern, `${problem}. ${right}`))

/** Unicode mode where the pattern allows it (for `\p{…}`), else without, since models write such as `[\w-.]`. */
const flagsOf = (pattern: string, ignoreCase: boolean): Effect.Effect<string, WorkspaceFailure.WorkspaceFailure> => {
  if (pattern === "" || pattern.length > limits.pattern) {
    return invalid(pattern, `The pattern has ${pattern.length} characters`, `Use one of 1 to ${limits.pattern}.`)
  }
  const base = ignoreCase ? "i" : ""
  if (Result.isSuccess(Result.try(() => new RegExp(pattern, `${base}u`)))) return Effect.succeed(`${base}u`)
  const plain = Result.try(() => new RegExp(pattern, base))
  return Result.isSuccess(plain)
    ? Effect.succeed(base)
    : invalid(pattern, String(plain.failure), "Write a JavaScript regular expression; escape ( [ { with a backslash.")
}

/** A folder, or a regular file that can be read; anything else fails. */
const kindOf = (workspace: Workspace.Workspace, real: string, path: string) =>
  Effect.scoped(Descriptor.openReal(workspace, real, "folder", path)).pipe(
    Effect.as("directory" as const),
    Effect.catchIf(
      (failure) => failure.error === "NotADirectory",
      () => Effect.as(Effect.scoped(Descriptor.openReal(workspace, real, "file", path)), "file" as const)
    )
  )

type Permits = (real: string) => Effect.Effect<boolean>

/** The bytes of a file, or nothing where it is to be skipped. */
const readFile = (
  workspace: Workspace.Workspace,
  real: string,
  permits: Permits
): Effect.Effect<SearchWorker.SearchFile | "notPermitted" | undefined> =>
  Effect.orElseSucceed(Effect.scoped(readBytes(workspace, real, permits)), () => undefined)

const readBytes = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  looked: string,
  permits: Permits
): Effect.fn.Return<
  SearchWorker.SearchFile | "notPermitted" | undefined,
  WorkspaceFailure.WorkspaceFailure,
  Scope.Scope
> {
  const file = yield* Descriptor.openReal(workspace, looked, "file")
  const { real } = file
  // the tree has asked about what it saw there
  if (real !== looked && !(yield* permits(real))) return "notPermitted"
  if (file.stats.size > limits.fileSize) return undefined
  const path = Workspace.display(workspace, real)
  const bytes = new Uint8Array(file.stats.size)
  let length = 0
  yield* Descriptor.readChunks(file, path, (chunk) => {
    const part = chunk.subarray(0, bytes.length - length)
    bytes.set(part, length)
    length += part.length
    return length < bytes.length && !isBinary(bytes.subarray(0, length))
  })
  const content = bytes.subarray(0, length)
  return isBinary(content) ? undefined : { path, bytes: content }
})
