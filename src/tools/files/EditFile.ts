/** The tool `edit_file`: replaces an exact piece of text in a file. */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import * as TextSearch from "../../internal/textSearch.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as FileTool from "./FileTool.ts"
import * as FileWriter from "./FileWriter.ts"

/**
 * The tool `edit_file`.
 *
 * **Gotchas**
 *
 * It runs alone (`SerialMut`): only `WorkspaceTools.make` knows the root, and so the resource keys that let writers of
 * different files run concurrently.
 */
export const tool = FileTool.writes(
  Tool.make("edit_file", {
    description:
      "Replaces a piece of text in a file of the workspace. oldText must occur in the file exactly once, character for " +
      "character, including white space. Include enough surrounding lines to make it unique, or set replaceAll.",
    parameters: Schema.Struct({
      path: FileTool.filePath,
      oldText: Schema.String.annotate({ description: "The text to replace, exactly as in the file" }),
      newText: Schema.String.annotate({ description: "The text to put in its place; may be empty" }),
      replaceAll: FileTool.flag("Whether to replace every occurrence; default false")
    }),
    success: Schema.Struct({
      path: Schema.String,
      /** How many occurrences were replaced. */
      replacements: Schema.Int,
      bytesWritten: Schema.Int
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "Edit file",
  false
)
  // whether an edit applies reveals what is in the file
  .annotate(ToolAnnotations.ActsAs, ["read_file"])

/**
 * Makes the handler of `edit_file` for a workspace.
 *
 * Fails with `InvalidEdit` if `oldText` is missing, occurs more than once without `replaceAll`, is empty or equals
 * `newText`; with `BinaryFile` if the file is not UTF-8; with `ChangedMeanwhile` if the file changed between reading
 * and writing. A byte order mark and line ends are kept.
 */
export const make: FileTool.Handler<typeof tool> = (workspace) =>
  Effect.fnUntraced(function*(params) {
    const before = yield* FileWriter.read(workspace, params.path)
    const { replacements, text } = yield* edit(params, before)
    const bytes = new TextEncoder().encode(text)
    const { path } = yield* FileWriter.replace(workspace, params.path, bytes, { expected: before })
    return { path, replacements, bytesWritten: bytes.length }
  })

/** Gives the text of a file after an edit. */
export const edit = (
  { newText, oldText, path, replaceAll }: Tool.Parameters<typeof tool>,
  before: Uint8Array | undefined
): Effect.Effect<{ readonly text: string; readonly replacements: number }, WorkspaceFailure.WorkspaceFailure> => {
  const invalid = (message: string) => Effect.fail(WorkspaceFailure.make("InvalidEdit", path, message))
  if (before === undefined) {
    return Effect.fail(WorkspaceFailure.fromUnknown({ code: "ENOENT" }, path))
  }
  if (oldText === "") {
    return invalid("oldText is empty. Use the text to replace, or write_file to write the whole file.")
  }
  if (oldText === newText) return invalid("oldText and newText are equal, so nothing would change.")
  if (/\p{Surrogate}/u.test(oldText + newText)) {
    return invalid("oldText or newText contains half of a surrogate pair. Use complete characters.")
  }
  const text = textOf(before)
  if (text === undefined) {
    return Effect.fail(
      WorkspaceFailure.make("BinaryFile", path, "The file is not UTF-8 text. Only text can be edited.")
    )
  }
  const parts = TextSearch.splitBy(text, oldText)
  const replacements = parts.length - 1
  if (replacements === 0) {
    const lineEnds = text.includes("\r\n") && !oldText.includes("\r\n") &&
      TextSearch.indexIn(text, oldText.replaceAll("\n", "\r\n")) !== -1
    return invalid(
      lineEnds
        ? "oldText is not in the file: its lines end with CR LF. Write \\r\\n in oldText and newText."
        : "oldText is not in the file. Read the file again and copy the text exactly, including white space."
    )
  }
  // it may overlap itself
  if (replaceAll !== true && TextSearch.indexIn(text, oldText, parts[0]!.length + 1) !== -1) {
    return invalid(
      `oldText is in the file ${Math.max(2, replacements)} times. Include more surrounding lines, or set replaceAll.`
    )
  }
  const length = text.length + replacements * (newText.length - oldText.length)
  return length > FileWriter.maxBytes
    ? Effect.fail(
      WorkspaceFailure.make(
        "TooLarge",
        path,
        `The file would grow to ${length} characters, which is over the limit. Use a shorter newText.`
      )
    )
    : Effect.succeed({ text: parts.join(newText), replacements })
}

const textOf = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
