/**
 * The journal in a file: one line of JSON for each entry (NDJSON), for one process that writes and any number that
 * read.
 *
 * Who writes holds a lock that the system gives back when the process ends, however that happens: a term lasts as long
 * as the lock. A group of entries is one write and, where it has to be durable, one `fsync`. A line that a crash has
 * torn is cut off before the next one is written, and is never read.
 *
 * Beside `journal.ndjson` there are `journal.ndjson.key`, the key of its hashes, `journal.ndjson.lock`,
 * `journal.ndjson.end`, by which a journal that was cut is known, and parts that were full: `journal.ndjson.1` is the
 * oldest. Each of these has an index of its calls (`journal.ndjson.1.index`), so that resuming does not read all of
 * them.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { createHmac, randomBytes, randomUUID } from "node:crypto"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { GroupedAppends } from "../../core/store/GroupedAppends.ts"
import * as Journal from "../../core/store/Journal.ts"
import type * as Chain from "../../core/store/JournalChain.ts"
import { type ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import { JournalFileWriter as Writer } from "./JournalFileWriter.ts"
import * as Parts from "./JournalParts.ts"
import * as Verify from "./JournalVerify.ts"

/** Where the journal is, and what it keeps. */
export interface Options extends Partial<Journal.Keeps> {
  /** Path of the file, made for its owner alone; apart from any root that tools work in. */
  readonly path: string
  /**
   * A file with so many bytes is full: the next entries go into a new one. Full ones are never removed: only the
   * operator knows how long they are needed. Default 67,108,864 (64 MiB).
   */
  readonly maxBytes?: number | undefined
}

/** The defaults. */
export const defaults = {
  arguments: "full",
  outputs: "full",
  maxBytes: 67_108_864
} as const satisfies Partial<Options>

/** Layer of a journal in a file. */
export const layer = (
  options: Options
): Layer.Layer<Journal.Journal, ConfigurationError | Journal.JournalError> =>
  Layer.effect(Journal.Journal, make(options))

/**
 * Creates the journal. It takes the lock when it is first written to, and has it for the rest of the scope; while
 * somebody else has it, it can be read alone.
 */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<Journal.Journal["Service"], ConfigurationError | Journal.JournalError, Scope.Scope> {
  const { maxBytes, path: given, ...keeps } = yield* readOptions("JournalFile", (read) => ({
    path: read.text("path", options.path),
    maxBytes: read.count("maxBytes", options.maxBytes ?? defaults.maxBytes, 1),
    arguments: read.oneOf("arguments", options.arguments ?? defaults.arguments, amounts),
    outputs: read.oneOf("outputs", options.outputs ?? defaults.outputs, amounts)
  }))
  const path = NodePath.resolve(given)
  const key = yield* attempt("open", () => keyOf(path))
  const writer = new Writer(path, maxBytes, key)
  yield* attempt("open", () => writer.check())
  const appends = new GroupedAppends(
    yield* Effect.context<never>(),
    (lines, durable) => attempt("append", () => writer.append(lines, durable))
  )
  yield* Effect.addFinalizer(() => Effect.andThen(appends.idle, Effect.promise(() => writer.close())))
  return {
    keeps,
    // half of it is as hard to guess, and every entry of a call has it
    digest: (text) => createHmac("sha256", key).update(text).digest("hex").slice(0, 32),
    append: (lines, { durable }) => appends.append(lines, durable),
    read: (query) =>
      query.keys === undefined && query.isOpen !== true
        ? read(path, query)
        : Stream.unwrap(Effect.map(attempt("read", () => writer.entriesOf(query)), Stream.fromIterable)),
    page: (query, bounds) => page(path, query, bounds),
    // earlier appends are seen
    claim: (keys) => Effect.andThen(appends.append([], false), attempt("claim", () => writer.claim(keys)))
  }
})

/** Reads the journal of a file; nothing is made or written. */
export const read = (path: string, query: Journal.Query): Stream.Stream<Journal.Recorded, Journal.JournalError> =>
  Stream.fromAsyncIterable(
    { [Symbol.asyncIterator]: () => entries(NodePath.resolve(path), query) },
    (cause) => new Journal.JournalError({ operation: "read", cause })
  )

/** Reads a bounded part of it. */
export const page = (
  path: string,
  query: Journal.Query,
  bounds: Journal.PageBounds
): Effect.Effect<Journal.Page, Journal.JournalError> =>
  Effect.tryPromise({
    try: () => pageOf(NodePath.resolve(path), query, bounds),
    catch: (cause) => new Journal.JournalError({ operation: "read", cause })
  })

/**
 * Checks that no line was changed, removed or moved, and compares the journal with a checkpoint. Lines that were not on
 * the disk when a crash came may be missing at the end.
 */
export const verify = (
  path: string,
  checkpoint?: Chain.Checkpoint,
  options: Verify.Options = {}
): Effect.Effect<Chain.Verified, Journal.JournalError> =>
  Effect.tryPromise({
    try: () => Verify.verify(NodePath.resolve(path), checkpoint, options),
    catch: (cause) => new Journal.JournalError({ operation: "verify", cause })
  })

const keyBytes = 32

const amounts = ["full", "hashes", "none"] as const

const attempt = <A>(operation: string, run: () => Promise<A>): Effect.Effect<A, Journal.JournalError> =>
  Effect.uninterruptible(
    Effect.tryPromise({ try: run, catch: (cause) => new Journal.JournalError({ operation, cause }) })
  )

async function* entries(path: string, query: Journal.Query): AsyncGenerator<Journal.Recorded> {
  const find = Parts.finder(query)
  for await (const line of Parts.lines(path, query)) {
    const found = find(line)
    if (found !== undefined) yield found
  }
}

const pageOf = async (
  path: string,
  query: Journal.Query,
  { chars, entries: most }: Journal.PageBounds
): Promise<Journal.Page> => {
  const find = Parts.finder(query)
  const found: Array<Journal.Recorded> = []
  let [lookedAt, size] = [0, 0]
  for await (const line of Parts.lines(path, query)) {
    const recorded = find(line)
    if (recorded !== undefined) found.push(recorded)
    // a line that is left out was read, too
    size += line.text.length
    if (found.length >= most || size >= chars || ++lookedAt >= Journal.mostLookedAt) {
      return { entries: found, next: line.place }
    }
  }
  return { entries: found }
}

/**
 * The key of the journal's hashes; the first one who comes makes it. Under another key no call would be known again,
 * and what has run would run once more: a journal without its key is refused.
 */
const keyOf = async (path: string): Promise<Buffer> => {
  await PrivateFolder.make(NodePath.dirname(path))
  const at = `${path}.key`
  const read = async () => {
    const key = Buffer.from((await NodeFsPromises.readFile(at, "utf8")).trim(), "hex")
    if (key.length !== keyBytes) throw new Error(`${at} is not the key of a journal`)
    return key
  }
  // before the key is looked for: the key is made first
  const isThere = await Parts.isThere(path)
  const found = await NodeFsPromises.stat(path).catch(() => undefined)
  if (found?.isDirectory()) throw new Error(`${path} is a folder, and no file`)
  try {
    return await read()
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) !== "ENOENT") throw cause
    if (isThere) throw new Error(`${at} is missing: without it no call of this journal is known again`, { cause })
  }
  const made = `${at}.${randomUUID()}`
  await PrivateFolder.write(made, randomBytes(keyBytes).toString("hex"))
  try {
    // there as a whole or not at all, and made once
    await NodeFsPromises.link(made, at)
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) !== "EEXIST") throw cause
  } finally {
    await PrivateFolder.remove(made)
  }
  return read()
}
