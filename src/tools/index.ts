/** Ready-made tools. */

/** Artifacts in a folder, so that they outlast the process that made them. */
export * as ArtifactFolder from "./public/ArtifactFolder.ts"

/** Tools that read on in large outputs: `read_artifact` and `search_artifact`. */
export * as ArtifactTools from "./public/ArtifactTools.ts"

/** Checkpoints in a folder, so that another process can undo what this one did. */
export * as CheckpointFolder from "./public/CheckpointFolder.ts"

/** Names of files and folders whose content other programs execute. */
export * as ExecutedFiles from "./public/ExecutedFiles.ts"

/** A tool that reaches the web: `fetch_url`. */
export * as FetchTools from "./public/FetchTools.ts"

/** The journal in a file, for one process that writes and any number that read. */
export * as JournalFile from "./public/JournalFile.ts"

/** Where commands run: in a sandbox of the operating system, or not. */
export * as Sandbox from "./public/Sandbox.ts"

/** Sessions in a folder, for processes one after the other: one that is killed leaves a session that opens. */
export * as TranscriptFolder from "./public/TranscriptFolder.ts"

/** Brings files of a workspace back to what they were at a checkpoint. */
export * as Undo from "./public/Undo.ts"

/** A root folder that paths cannot leave. */
export * as Workspace from "./public/Workspace.ts"

/** Tools over a root folder, as a toolkit and a layer. */
export * as WorkspaceTools from "./public/WorkspaceTools.ts"
