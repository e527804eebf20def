/** The tool `write_file`: replaces the complete content of a file, atomically. */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as FileTool from "./FileTool.ts"
import * as FileWriter from "./FileWriter.ts"

/**
 * The tool `write_file`.
 *
 * **Gotchas**
 *
 * It runs alone (`SerialMut`): only `WorkspaceTools.make` knows the root, and so the resource keys that let writers of
 * different files run concurrently.
 */
export const tool = FileTool.writes(
  Tool.make("write_file", {
    description:
      "Writes a text file in the workspace and replaces its complete content. If the write fails, the file stays " +
      "unchanged. If the path is a link inside the workspace, the file it points to is written. Folders, pipes and " +
      "devices are refused.",
    parameters: Schema.Struct({
      path: FileTool.filePath,
      content: Schema.String.annotate({ description: "The complete new content, written as UTF-8" }),
      createDirectories: FileTool.flag("Whether to create missing folders of the path; default false")
    }),
    success: Schema.Struct({
      path: Schema.String,
      bytesWritten: Schema.Int,
      /** Whether there was no such file before. */
      created: Schema.Boolean
    }),
    failure: WorkspaceFailure.WorkspaceFailure
  }),
  "Write file",
  true
)
  // a write that changes nothing reveals what is in the file
  .annotate(ToolAnnotations.ShownBy, ["read_file"])

/** Makes the handler of `write_file` for a workspace; see `FileWriter.replace`. */
export const make: FileTool.Handler<typeof tool> = (workspace) => ({ content, createDirectories, path }) => {
  const bytes = new TextEncoder().encode(content)
  return Effect.map(
    FileWriter.replace(workspace, path, bytes, { createDirectories }),
    (written) => ({ ...written, bytesWritten: bytes.length })
  )
}
