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
export * as ArtifactFolder from "./ArtifactFolder.ts"

/**
 * Tools that read on in large outputs: `read_artifact` and `search_artifact`.
 *
 * @since 0.1.0
 */
export * as ArtifactTools from "./ArtifactTools.ts"

/**
 * Checkpoints in a folder, so that another process can undo what this one did.
 *
 * @since 0.1.0
 */
export * as CheckpointFolder from "./CheckpointFolder.ts"

/**
 * Files and folders that were opened and found to lie inside the root.
 *
 * @since 0.1.0
 */
export * as Descriptor from "./Descriptor.ts"

/**
 * The tool `edit_file`: replaces an exact piece of text in a file.
 *
 * @since 0.1.0
 */
export * as EditFile from "./EditFile.ts"

/**
 * Names of files and folders whose content other programs execute.
 *
 * @since 0.1.0
 */
export * as ExecutedFiles from "./ExecutedFiles.ts"

/**
 * What `fetch_url` answers when there is no response to give.
 *
 * @since 0.1.0
 */
export * as FetchFailure from "./FetchFailure.ts"

/**
 * What a URL is about: the server that would be asked.
 *
 * @since 0.1.0
 */
export * as FetchTarget from "./FetchTarget.ts"

/**
 * A tool that reaches the web: `fetch_url`.
 *
 * @since 0.1.0
 */
export * as FetchTools from "./FetchTools.ts"

/**
 * The tool `fetch_url`: the text at a URL of the public internet.
 *
 * @since 0.1.0
 */
export * as FetchUrl from "./FetchUrl.ts"

/**
 * Writing files of a workspace: the whole content, at once or not at all.
 *
 * @since 0.1.0
 */
export * as FileWriter from "./FileWriter.ts"

/**
 * The tool `find_files`: files whose paths match a glob.
 *
 * @since 0.1.0
 */
export * as FindFiles from "./FindFiles.ts"

/**
 * The journal in a file, for one process that writes and any number that read.
 *
 * @since 0.1.0
 */
export * as JournalFile from "./JournalFile.ts"

/**
 * The tool `list_directory`: what is in a folder, some levels deep.
 *
 * @since 0.1.0
 */
export * as ListDirectory from "./ListDirectory.ts"

/**
 * What a path of a workspace is to a policy.
 *
 * @since 0.1.0
 */
export * as PathTarget from "./PathTarget.ts"

/**
 * Which addresses are public, and which others a host allows.
 *
 * @since 0.1.0
 */
export * as PublicAddress from "./PublicAddress.ts"

/**
 * The tool `read_file`: a range of lines of a text file.
 *
 * @since 0.1.0
 */
export * as ReadFile from "./ReadFile.ts"

/**
 * The tool `run_command`: a command line or a program with arguments.
 *
 * @since 0.1.0
 */
export * as RunCommand from "./RunCommand.ts"

/**
 * The tool `search_text`: lines that match a regular expression.
 *
 * @since 0.1.0
 */
export * as SearchText from "./SearchText.ts"

/**
 * Sessions in a folder, for processes one after the other: one that is killed leaves a
 * session that opens.
 *
 * @since 0.1.0
 */
export * as TranscriptFolder from "./TranscriptFolder.ts"

/**
 * Brings files of a workspace back to what they were at a checkpoint.
 *
 * @since 0.1.0
 */
export * as Undo from "./Undo.ts"

/**
 * A root folder that paths cannot leave.
 *
 * @since 0.1.0
 */
export * as Workspace from "./Workspace.ts"

/**
 * What a workspace tool answers when it cannot do what it was asked.
 *
 * @since 0.1.0
 */
export * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * Tools over a root folder, as a toolkit and a layer.
 *
 * @since 0.1.0
 */
export * as WorkspaceTools from "./WorkspaceTools.ts"

/**
 * The tool `write_file`: a file's whole content, at once or not at all.
 *
 * @since 0.1.0
 */
export * as WriteFile from "./WriteFile.ts"
