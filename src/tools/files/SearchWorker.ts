/**
 * A thread that matches lines against a model's regular expression, and that can be killed while it does.
 *
 * It gets bytes and no paths: the caller decides which files may be read. Its program is a string, so that it runs the
 * same from `src`, from `dist` and in a bundle.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { Worker } from "node:worker_threads"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** What to look for. */
export interface Pattern {
  readonly source: string
  readonly flags: string
  readonly contextLines: number
  /** Characters of a line that are shown; of a longer one those around the match. */
  readonly lineLength: number
}

/** A file to search. */
export interface SearchFile {
  readonly path: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** A matching line. */
export interface Match {
  readonly path: string
  readonly line: number
  readonly text: string
  readonly before?: ReadonlyArray<string>
  readonly after?: ReadonlyArray<string>
}

/** What was found in some files; `full` if there was no room for more. */
export interface Found {
  readonly matches: ReadonlyArray<Match>
  /** Characters of all texts. */
  readonly size: number
  /** Files that were searched, the last perhaps not to its end. */
  readonly files: number
  readonly full: boolean
}

/** Searches files, one call at a time; the bytes are transferred to the thread. */
export interface SearchWorker {
  readonly search: (
    files: ReadonlyArray<SearchFile>,
    room: { readonly matches: number; readonly size: number }
  ) => Effect.Effect<Found, WorkspaceFailure.WorkspaceFailure>
}

/** Starts the thread; it is terminated with the scope, also in the middle of a match. */
export const make = Effect.fnUntraced(function*(
  pattern: Pattern
): Effect.fn.Return<SearchWorker, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  let waiting: ((reply: Effect.Effect<Found, WorkspaceFailure.WorkspaceFailure>) => void) | undefined
  let broken: WorkspaceFailure.WorkspaceFailure | undefined
  const answer = (reply: Effect.Effect<Found, WorkspaceFailure.WorkspaceFailure>) => {
    const resume = waiting
    waiting = undefined
    resume?.(reply)
  }
  const failed = (why: string) => {
    broken ??= WorkspaceFailure.make(
      "InvalidPattern",
      pattern.source,
      `The regular expression cannot be run (${why}). Use a simpler one.`
    )
    answer(Effect.fail(broken))
  }
  const worker = yield* Effect.acquireRelease(
    Effect.try({
      try: () =>
        // No options or environment of the process: they could turn the program into a module or load code into it.
        new Worker(program, {
          eval: true,
          execArgv: [],
          env: {},
          workerData: pattern,
          resourceLimits: { maxOldGenerationSizeMb: 512 }
        }),
      catch: (cause) => WorkspaceFailure.fromUnknown(cause, pattern.source)
    }),
    (worker) => Effect.ignore(Effect.tryPromise(() => worker.terminate()))
  )
  worker.on(
    "message",
    (reply: Found | { readonly problem: string }) =>
      "problem" in reply ? failed(reply.problem) : answer(Effect.succeed(reply))
  )
  worker.on("messageerror", () => failed("its result could not be passed on"))
  worker.on("error", (cause) => failed(Predicate.isError(cause) ? cause.message : "the thread failed"))
  worker.on("exit", () => failed("the thread ended"))

  return {
    search: (files, room) =>
      Effect.callback((resume) => {
        if (broken !== undefined) {
          resume(Effect.fail(broken))
          return
        }
        waiting = resume
        worker.postMessage({ files, room }, files.map((file) => file.bytes.buffer))
        return Effect.sync(() => {
          waiting = undefined
        })
      })
  }
})

/** Plain JavaScript, since the thread has no TypeScript loader. */
const program = `
"use strict"
const { parentPort, workerData } = require("node:worker_threads")
const { contextLines, lineLength } = workerData
const decoder = new TextDecoder("utf-8")

const cut = (line, index, length) => {
  if (line.length <= lineLength) return line
  const spare = Math.max(0, Math.floor((lineLength - length) / 2))
  const start = Math.max(0, Math.min(index - spare, line.length - lineLength))
  const end = start + lineLength
  return (start > 0 ? "\\u2026" : "") + line.slice(start, end) + (end < line.length ? "\\u2026" : "")
}
const total = (lines) => lines.reduce((sum, line) => sum + line.length, 0)

const search = (regex, files, room) => {
  const found = { matches: [], size: 0, files: 0, full: false }
  for (const file of files) {
    if (found.full) break
    found.files++
    const lines = decoder.decode(file.bytes).split("\\n")
    if (lines[lines.length - 1] === "") lines.pop()
    for (let index = 0; index < lines.length; index++) {
      const line = lines[index].endsWith("\\r") ? lines[index].slice(0, -1) : lines[index]
      const hit = regex.exec(line)
      if (hit === null) continue
      if (found.matches.length >= room.matches || found.size >= room.size) {
        found.full = true
        break
      }
      const match = { path: file.path, line: index + 1, text: cut(line, hit.index, hit[0].length) }
      found.size += match.text.length
      if (contextLines > 0) {
        match.before = lines.slice(Math.max(0, index - contextLines), index).map((it) => cut(it, 0, 0))
        match.after = lines.slice(index + 1, index + 1 + contextLines).map((it) => cut(it, 0, 0))
        found.size += total(match.before) + total(match.after)
      }
      found.matches.push(match)
    }
  }
  return found
}

parentPort.on("message", ({ files, room }) => {
  try {
    parentPort.postMessage(search(new RegExp(workerData.source, workerData.flags), files, room))
  } catch (error) {
    parentPort.postMessage({ problem: String(error && error.message) })
  }
})
`
