/**
 * The tool `read_file`: a range of lines of a text file.
 *
 * It reads a file of any size without loading it whole, and never more than 2,000 lines or 1,000,000 bytes per call. It
 * does not read binary files.
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as PathTarget from "../workspace/PathTarget.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"
import * as FileTool from "./FileTool.ts"
import * as LineWindow from "./LineWindow.ts"

/** Most lines that one call gives. */
export const maxLines = 2_000

/** Most bytes of the file that one call gives. */
export const maxBytes = 1_000_000

/** Bytes up to which a file is read on, after the lines asked for, to count its lines. */
export const maxCountedBytes = 64_000_000

export const tool = FileTool.reads(
  Tool.make("read_file", {
    description: "Reads lines of a text file in the workspace. One call returns at most 2,000 lines and 1,000,000 " +
      "bytes; to continue in a longer file, set startLine. Bytes that are not UTF-8 are returned as U+FFFD. " +
      "Binary files, folders, pipes and devices are refused.",
    parameters: Schema.Struct({
      path: FileTool.filePath,
      startLine: FileTool.count("First line to read, counted from 1; default 1"),
      maxLines: FileTool.count("Number of lines to read; default and maximum 2,000")
    }),
    success: Schema.Struct({
      path: Schema.String,
      /** The unchanged lines, including their ends. */
      content: Schema.String,
      startLine: Schema.Int,
      /** Last line of `content`; 0 for an empty file. */
      endLine: Schema.Int,
      /** Lines of the file; absent if it is larger than 64,000,000 bytes and was not read to its end. */
      totalLines: Schema.optionalKey(Schema.Int),
      /** Whether the file goes on after `content`. */
      truncated: Schema.Boolean,
      /** How to read on. */
      note: Schema.optionalKey(Schema.String)
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "Read file"
)

/**
 * Makes the handler of `read_file` for a workspace.
 *
 * Fails with `BinaryFile` where the first 8,192 bytes hold a NUL, with `InvalidRange` where the file ends before
 * `startLine`, and as `Descriptor.open`.
 */
export const make: FileTool.Handler<typeof tool> = (workspace) =>
  Effect.fnUntraced(function*(params) {
    const startLine = params.startLine ?? 1
    const judge = yield* PathTarget.judge(workspace, "reads")
    const file = yield* Descriptor.open(workspace, params.path, "file")
    yield* judge.check(file.real, params.path)
    const window = LineWindow.make(startLine, Math.min(params.maxLines ?? maxLines, maxLines), maxBytes)
    let seen = 0
    let binary = false
    let complete = true
    yield* Descriptor.readChunks(file, params.path, (chunk) => {
      if (seen === 0 && isBinary(chunk)) {
        binary = true
        return false
      }
      seen += chunk.length
      window.push(chunk)
      complete = !window.isFull() || seen < maxCountedBytes || seen >= file.stats.size
      return complete
    })
    if (binary) {
      const message =
        "The file is not text (it contains a NUL byte). Use run_command with a suitable program to inspect it."
      return yield* Effect.fail(WorkspaceFailure.make("BinaryFile", params.path, message))
    }
    const { content, cut, endLine, lines } = window.end()
    if (startLine > Math.max(lines, 1)) {
      const message = `The file has ${count(lines)}. Use a startLine from 1 to ${Math.max(lines, 1)}.`
      return yield* Effect.fail(WorkspaceFailure.make("InvalidRange", params.path, message))
    }
    const more = !complete || endLine < lines
    return {
      path: Workspace.display(workspace, file.real),
      content,
      startLine,
      endLine,
      truncated: more || cut,
      ...(complete ? { totalLines: lines } : {}),
      ...(more || cut ? { note: noteOf({ startLine, endLine, cut, more, total: complete ? lines : undefined }) } : {})
    }
  }, Effect.scoped)

/** Tells whether the first bytes of a file are not text: a NUL in the first 8,192. */
export const isBinary = (start: Uint8Array): boolean => start.subarray(0, 8_192).includes(0)

const count = (lines: number): string => `${lines} ${lines === 1 ? "line" : "lines"}`

const noteOf = (it: {
  readonly startLine: number
  readonly endLine: number
  readonly cut: boolean
  readonly more: boolean
  readonly total: number | undefined
}): string => {
  const shown = it.cut
    ? `Line ${it.endLine} is longer than ${maxBytes} bytes; its end is not shown.`
    : `Lines ${it.startLine} to ${it.endLine}${it.total === undefined ? "" : ` of ${it.total}`} are shown.`
  return it.more ? `${shown} Continue with startLine ${it.endLine + 1}.` : shown
}
