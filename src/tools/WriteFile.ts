/** The tool `write_file`: a file's whole content, at once or not at all. */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import * as FileWriter from "./FileWriter.ts"
import type * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * The tool `write_file`.
 *
 * **Gotchas**
 *
 * It runs alone (`SerialMut`): only `WorkspaceTools.make` knows the root, and so
 * the resource keys that let writers of different files run at once.
 */
export const tool = Tool.make("write_file", {
  description:
    "Writes a text file of the workspace: the whole content replaces what was there, at once or not at all. " +
    "If the path is a link inside the workspace, the file that it leads to is written. Folders, pipes and devices are refused.",
  parameters: Schema.Struct({
    path: Schema.String.annotate({ description: "Path of the file, relative to the workspace root" }),
    content: Schema.String.annotate({ description: "The whole content, written as UTF-8" }),
    createDirectories: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Whether to make missing folders of the path; default false" })
    )
  }),
  success: Schema.Struct({
    path: Schema.String,
    bytesWritten: Schema.Int,
    /** Whether there was no such file before. */
    created: Schema.Boolean
  }),
  failure: WorkspaceFailure.WorkspaceFailure
})
  .annotate(Tool.Title, "Write file")
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.OpenWorld, false)
  // that a write changes nothing tells what is in the file
  .annotate(ToolAnnotations.ShownBy, ["read_file"])
  .annotate(ToolAnnotations.Closed, true)

/** Makes the handler of `write_file` for a workspace; see `FileWriter.replace`. */
export const make = (
  workspace: Workspace.Workspace
): (params: Tool.Parameters<typeof tool>) => Effect.Effect<
  Tool.Success<typeof tool>,
  WorkspaceFailure.WorkspaceFailure
> =>
({ content, createDirectories, path }) => {
  const bytes = new TextEncoder().encode(content)
  return Effect.map(
    FileWriter.replace(workspace, path, bytes, { createDirectories }),
    (written) => ({ ...written, bytesWritten: bytes.length })
  )
}
