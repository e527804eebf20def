/**
 * What a workspace tool answers when it cannot do what it was asked: one plain tagged value, with a message written for
 * the model.
 *
 * It covers what a path, a pattern or a command can be wrong about. A wrong root is not covered: that is a
 * `ConfigurationError` of the layer.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

/** Schema of a failure of a workspace tool. */
export const WorkspaceFailure = Schema.Struct({
  error: Schema.Literals([
    /** The path is empty, too long, or holds a NUL character. */
    "InvalidPath",
    /** The path, or a link on its way, leads out of the root. */
    "OutsideRoot",
    /** Nothing is there. */
    "NotFound",
    /** A folder, pipe, socket or device where a file is needed. */
    "NotAFile",
    /** Something else where a folder is needed. */
    "NotADirectory",
    /** The operating system forbids it. */
    "PermissionDenied",
    /** The file is not text. */
    "BinaryFile",
    /** The lines asked for are not in the file. */
    "InvalidRange",
    /** The regular expression or the glob cannot be used. */
    "InvalidPattern",
    /** The text to replace is not in the file, not unique, or the same as the new one. */
    "InvalidEdit",
    /** The file is too large to be read as a whole. */
    "TooLarge",
    /** The command cannot be run as it was given. */
    "InvalidCommand",
    /** The sandbox of the command could not be made. */
    "SandboxFailed",
    /** The path changed while the tool worked on it. */
    "ChangedMeanwhile",
    /** Anything else the operating system reports. */
    "IoError"
  ]),
  /** What it is about, as the model gave it: a path, a program or a pattern; at most 300 characters. */
  path: Schema.String,
  /** What was wrong, and what would be right. */
  message: Schema.String
})

/** A failure of a workspace tool. */
export type WorkspaceFailure = typeof WorkspaceFailure.Type

export const make = (error: WorkspaceFailure["error"], path: string, message: string): WorkspaceFailure => ({
  error,
  path: path.length > 300 ? `${path.slice(0, 300)}…` : path,
  message
})

/** Gives the failure that an error thrown by `node:fs` or `node:child_process` stands for. */
export const fromUnknown = (cause: unknown, path: string): WorkspaceFailure => {
  const code = codeOf(cause)
  const known = Object.hasOwn(byCode, code) ? byCode[code] : undefined
  return known === undefined
    ? make("IoError", path, `The operating system reported ${code === "" ? "an error" : code}. Try another path.`)
    : make(known[0], path, known[1])
}

/** Runs a promise of `node:fs`; a rejection becomes a `WorkspaceFailure`. */
export const attempt = <A>(path: string, run: () => Promise<A>): Effect.Effect<A, WorkspaceFailure> =>
  Effect.tryPromise({ try: run, catch: (cause) => fromUnknown(cause, path) })

/** Gives the `code` of a Node error, or the empty string. */
export const codeOf = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""

const notAFile = "The path is a pipe, socket or device. Use a regular file."
const forbidden = "The operating system denied access. Use another path."

const byCode: Readonly<Record<string, readonly [WorkspaceFailure["error"], string]>> = {
  ENOENT: ["NotFound", "The file or folder does not exist. Use list_directory to see what exists."],
  ENOTDIR: ["NotFound", "A part of the path is a file, not a folder. Use list_directory to see what exists."],
  EISDIR: ["NotAFile", "The path is a folder. Use the path of a file."],
  ENXIO: ["NotAFile", notAFile],
  ENODEV: ["NotAFile", notAFile],
  EACCES: ["PermissionDenied", forbidden],
  EPERM: ["PermissionDenied", forbidden],
  EROFS: ["PermissionDenied", "The file system is read-only. Write somewhere else."],
  ELOOP: ["OutsideRoot", "The links on the path form a cycle. Use the path of the file itself."],
  EEXIST: [
    "ChangedMeanwhile",
    "A file or folder with this name was created meanwhile. Check the path again and retry."
  ],
  ENAMETOOLONG: ["InvalidPath", "The path is too long. Use a shorter one."],
  ERR_INVALID_ARG_VALUE: ["InvalidPath", "The path contains a NUL character. Use a path without it."],
  ENOSPC: ["IoError", "The disk is full. Free space before trying again."],
  EDQUOT: ["IoError", "The disk quota is exhausted. Free space before trying again."]
}
