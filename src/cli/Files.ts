/** Reading and writing of whole texts: files and the standard streams. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { escape, escapeJson } from "../internal/escape.ts"
import { CliFailure, wrong } from "./CliFailure.ts"

/** Reads a text file; fails with exit code 2. */
export const read = Effect.fnUntraced(function*(path: string) {
  const files = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(
    files.readFileString(path),
    (error) => wrong(`${escape(path)}: ${unreadable(error)}`)
  )
  return withoutMark(text)
})

/** Reads standard input to its end; fails with exit code 2 and `missing` if it is a terminal. */
export const readStdin = Effect.fnUntraced(function*(missing: string) {
  const stdio = yield* Stdio.Stdio
  if (yield* stdio.stdinIsTerminal) return yield* wrong(missing)
  const text = yield* Effect.mapError(
    Stream.mkString(Stream.decodeText(stdio.stdin)),
    (error) => wrong(`standard input: cannot be read (${reasonOf(error)})`)
  )
  return withoutMark(text)
})

/** Parses JSON; fails with exit code 2 and the name of where it is from. */
export const parseJson = (text: string, name: string): Effect.Effect<unknown, CliFailure> =>
  Effect.try({
    try: () => JSON.parse(text) as unknown,
    catch: (error) => wrong(`${escape(name)}: it is not JSON (${escape(error instanceof Error ? error.message : "")})`)
  })

/** Reads a JSON file; fails with exit code 2. */
export const readJson = (path: string) => Effect.flatMap(read(path), (text) => parseJson(text, path))

/**
 * Writes a text to standard output and a line break after it. A reader who has gone, such as `head`, wants no more:
 * that ends the command without a word.
 */
export const print = (text: string) => write(`${text}\n`)

/** Writes a text to standard output, unchanged; fails as `print` does. */
export const write = Effect.fnUntraced(function*(text: string) {
  const stdio = yield* Stdio.Stdio
  yield* Effect.mapError(
    Stream.run(Stream.make(text), stdio.stdout()),
    (error) =>
      new CliFailure({
        code: 1,
        explanation: isGone(error) ? "" : `standard output: cannot be written (${reasonOf(error)})`
      })
  )
})

/** Writes a value to standard output as JSON that a terminal can show. */
export const printJson = (value: unknown) => print(escapeJson(JSON.stringify(value, undefined, 2)))

/** Writes a text to standard error, unchanged; never fails. */
export const printError = Effect.fnUntraced(function*(text: string) {
  if (text === "") return
  const stdio = yield* Stdio.Stdio
  yield* Effect.ignore(Stream.run(Stream.make(text), stdio.stderr()))
})

const withoutMark = (text: string): string => text.startsWith("\ufeff") ? text.slice(1) : text

const isGone = (error: PlatformError): boolean =>
  hasCode(error, "EPIPE", "ERR_STREAM_DESTROYED", "ERR_STREAM_PREMATURE_CLOSE")

const unreadable = (error: PlatformError): string =>
  error.reason._tag === "NotFound"
    ? "there is no such file"
    : error.reason._tag === "PermissionDenied"
    ? "permission denied"
    : hasCode(error, "EISDIR")
    ? "it is a folder"
    : `cannot be read (${reasonOf(error)})`

const hasCode = ({ reason: { cause } }: PlatformError, ...codes: ReadonlyArray<unknown>): boolean =>
  Predicate.hasProperty(cause, "code") && codes.includes(cause.code)

const reasonOf = (error: PlatformError): string => escape(error.reason._tag)
