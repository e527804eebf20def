/**
 * Ready-made tools.
 *
 * @since 0.1.0
 */

/**
 * Artifacts in a folder, so that they outlast the process that made them.
 *
 * @since 0.1.0
 */
export * as ArtifactFolder from "./public/ArtifactFolder.ts"

/**
 * Tools that read on in large outputs: `read_artifact` and `search_artifact`.
 *
 * @since 0.1.0
 */
export * as ArtifactTools from "./public/ArtifactTools.ts"

/**
 * Checkpoints in a folder, so that another process can undo what this one did.
 *
 * @since 0.1.0
 */
export * as CheckpointFolder from "./public/CheckpointFolder.ts"

/**
 * Names of files and folders whose content other programs execute.
 *
 * @since 0.1.0
 */
export * as ExecutedFiles from "./public/ExecutedFiles.ts"

/**
 * A tool that reaches the web: `fetch_url`.
 *
 * @since 0.1.0
 */
export * as FetchTools from "./public/FetchTools.ts"

/**
 * The journal in a file, for one process that writes and any number that read.
 *
 * @since 0.1.0
 */
export * as JournalFile from "./public/JournalFile.ts"

/**
 * Sessions in a folder, for processes one after the other: one that is killed leaves a session that opens.
 *
 * @since 0.1.0
 */
export * as TranscriptFolder from "./public/TranscriptFolder.ts"

/**
 * Brings files of a workspace back to what they were at a checkpoint.
 *
 * @since 0.1.0
 */
export * as Undo from "./public/Undo.ts"

/**
 * A root folder that paths cannot leave.
 *
 * @since 0.1.0
 */
export * as Workspace from "./public/Workspace.ts"

/**
 * Tools over a root folder, as a toolkit and a layer.
 *
 * @since 0.1.0
 */
export * as WorkspaceTools from "./public/WorkspaceTools.ts"
