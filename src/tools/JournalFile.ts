/**
 * The journal in a file: one line of JSON for each entry (NDJSON), for one process that
 * writes and any number that read.
 *
 * Who writes holds a lock that the system gives back when the process ends, however
 * that happens: a term lasts as long as the lock. What is appended together is one
 * write and, where it has to be durable, one `fsync`. A line that a crash has torn is
 * cut off before the next one is written, and nobody reads it meanwhile.
 *
 * Beside `journal.ndjson` there are `journal.ndjson.key`, the key of its hashes,
 * `journal.ndjson.lock`, and parts that were full: `journal.ndjson.1` is the oldest.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { createHmac, randomBytes, randomUUID } from "node:crypto"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { type ConfigurationError, readOptions } from "../ConfigurationError.ts"
import { GroupedAppends } from "../store/GroupedAppends.ts"
import * as Journal from "../store/Journal.ts"
import * as JournalText from "../store/JournalText.ts"
import * as FileLock from "./FileLock.ts"
import * as Parts from "./JournalParts.ts"
import * as PrivateFolder from "./PrivateFolder.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * Where the journal is, and what it keeps.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options extends Partial<Journal.Keeps> {
  /** Path of the file, made for its owner alone; apart from any root that tools work in. */
  readonly path: string
  /**
   * A file with so many bytes is full: the next entries go into a new one. Full ones
   * are never removed: that is for whoever knows how long they are needed. Default
   * 67,108,864 (64 MiB).
   */
  readonly maxBytes?: number | undefined
}

/**
 * The defaults.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = {
  arguments: "full",
  outputs: "full",
  maxBytes: 67_108_864
} as const satisfies Partial<Options>

/**
 * Layer of a journal in a file.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options
): Layer.Layer<Journal.Journal, ConfigurationError | Journal.JournalError> =>
  Layer.effect(Journal.Journal, make(options))

/**
 * The same with options from the configuration, such as environment variables.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<Journal.Journal, ConfigurationError | Config.ConfigError | Journal.JournalError> =>
  Layer.effect(Journal.Journal, Effect.flatMap(Config.unwrap(options), make))

/**
 * Creates the journal. It takes the lock when it is first written to, and has it for
 * the rest of the scope; while somebody else has it, it can be read alone.
 *
 * @category constructors
 * @since 0.1.0
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
  const writer = new Writer(path, maxBytes)
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
    read: (query) => read(path, query),
    page: (query, bounds) => page(path, query, bounds),
    // what was appended before is seen
    claim: (keys) => Effect.andThen(appends.append([], false), attempt("claim", () => writer.claim(keys)))
  }
})

/**
 * Reads the journal of a file; nothing is made or written.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = (path: string, query: Journal.Query): Stream.Stream<Journal.Recorded, Journal.JournalError> =>
  Stream.fromAsyncIterable(
    { [Symbol.asyncIterator]: () => entries(NodePath.resolve(path), query) },
    (cause) => new Journal.JournalError({ operation: "read", cause })
  )

/**
 * Reads a bounded part of it.
 *
 * @category reading
 * @since 0.1.0
 */
export const page = (
  path: string,
  query: Journal.Query,
  bounds: Journal.PageBounds
): Effect.Effect<Journal.Page, Journal.JournalError> =>
  Effect.tryPromise({
    try: () => pageOf(NodePath.resolve(path), query, bounds),
    catch: (cause) => new Journal.JournalError({ operation: "read", cause })
  })

// Utilities

const keyBytes = 32

const amounts = ["full", "hashes", "none"] as const

const attempt = <A>(operation: string, run: () => Promise<A>): Effect.Effect<A, Journal.JournalError> =>
  Effect.uninterruptible(
    Effect.tryPromise({ try: run, catch: (cause) => new Journal.JournalError({ operation, cause }) })
  )

async function* entries(path: string, query: Journal.Query): AsyncGenerator<Journal.Recorded> {
  const find = finder(query)
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
  const find = finder(query)
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

/** Tells of a line which entry of a query it is, if it is one. */
const finder = (query: Journal.Query): (line: Parts.Line) => Journal.Recorded | undefined => {
  const { batch, callId, keys, owners, principal, tool } = query
  // each of these is in the line as JSON has it
  const wanted = [batch, callId, principal, tool].flatMap((it) => it === undefined ? [] : [JSON.stringify(it)])
  const anyOf = [keys?.map((it) => JSON.stringify(it)), owners?.map((it) => JSON.stringify(it).slice(0, -1))]
  return ({ place, text }) => {
    if (isOpening(text) || !wanted.every((it) => text.includes(it))) return undefined
    if (anyOf.some((any) => any?.some((it) => text.includes(it)) === false)) return undefined
    const entry = JournalText.decode(text)
    if (Result.isFailure(entry)) throw new Error(`the entry at ${place} is not valid`, { cause: entry.failure })
    const recorded = { place, entry: entry.success }
    return Journal.matches(query, recorded) ? recorded : undefined
  }
}

/** No entry: here a process begins to write. */
const isOpening = (text: string): boolean => /^\{"place":\d+,"_tag":"Opened",/.test(text)

/**
 * The key of the journal's hashes; the first one who comes makes it. Under another key
 * no call would be known again, and what has run would run once more: a journal without
 * its key is refused.
 */
const keyOf = async (path: string): Promise<Buffer> => {
  await PrivateFolder.make(NodePath.dirname(path))
  const at = `${path}.key`
  const read = async () => {
    const key = Buffer.from((await NodeFsPromises.readFile(at, "utf8")).trim(), "hex")
    if (key.length !== keyBytes) throw new Error(`${at} is not the key of a journal`)
    return key
  }
  // before the key is looked for: whoever makes both makes the key first
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

/** Writes to the file, once it has its lock. */
class Writer {
  private readonly path: string
  private readonly maxBytes: number
  private lock: FileLock.FileLock | undefined
  private file: NodeFsPromises.FileHandle | undefined
  private size = 0
  private place = 0
  /** First place of its term. */
  private since: number | undefined
  /** Calls that were taken over and have no end yet. */
  private readonly claimed = new Set<string>()
  private isClosed = false
  /** What is done at the moment. */
  private turn: Promise<unknown> = Promise.resolve()

  constructor(path: string, maxBytes: number) {
    this.path = path
    this.maxBytes = maxBytes
  }

  append(lines: ReadonlyArray<Journal.Line>, durable: boolean): Promise<void> {
    return this.inTurn(async () => {
      if (lines.length === 0) return
      const file = await this.open()
      const texts = lines.map(({ entry }, index) => Parts.lineOf(this.place + 1 + index, JournalText.encode(entry)))
      await this.write(file, texts.join(""), durable)
      this.place += lines.length
      if (this.claimed.size > 0) {
        for (const { entry } of lines) {
          if (entry._tag === "Settled" || entry._tag === "Suspended") this.claimed.delete(entry.key)
        }
      }
      // what was written is written; a file that stays too long is tried again
      if (this.size >= this.maxBytes) await this.rotate(file).catch(() => {})
    })
  }

  claim(keys: ReadonlyArray<string>): Promise<Journal.Claimed> {
    return this.inTurn(async () => {
      const isOwner = await this.open().then(() => true, (cause: unknown) => {
        if (cause === taken) return false
        throw cause
      })
      const last = await this.lastOf(keys)
      const ended = keys.filter((it) => last.get(it)?.entry._tag === "Settled")
      const isBusy = (key: string) => {
        // who writes the journal may have taken over anything
        if (!isOwner) return !ended.includes(key)
        const { entry, place } = last.get(key) ?? {}
        return this.claimed.has(key) || (entry?._tag === "Arrived" && place! >= this.since!)
      }
      const busy = keys.filter(isBusy)
      if (busy.length > 0) return { _tag: "Busy", keys: busy }
      for (const it of keys) if (!ended.includes(it)) this.claimed.add(it)
      return { _tag: "Claimed", ended }
    })
  }

  close(): Promise<void> {
    return this.inTurn(async () => {
      this.isClosed = true
      await this.file?.close()
      this.lock?.release()
    })
  }

  /** One at a time. */
  private inTurn<A>(run: () => Promise<A>): Promise<A> {
    const turn = this.turn.then(run, run)
    this.turn = turn
    return turn
  }

  /** What was last said of whether calls run. */
  private async lastOf(keys: ReadonlyArray<string>): Promise<ReadonlyMap<string, Journal.Recorded>> {
    const last = new Map<string, Journal.Recorded>()
    for await (const recorded of entries(this.path, { keys })) {
      const { entry } = recorded
      if (Journal.isOfCall(entry) && tellsState.has(entry._tag)) last.set(entry.key, recorded)
    }
    return last
  }

  private async open(): Promise<NodeFsPromises.FileHandle> {
    if (this.isClosed) throw new Error("it is closed")
    if (this.file !== undefined) return this.file
    this.lock ??= FileLock.take(`${this.path}.lock`)
    if (this.lock === undefined) throw taken
    return this.begin()
  }

  /** Begins to write behind the last line that is whole, with a line that says so. */
  private async begin(): Promise<NodeFsPromises.FileHandle> {
    const isNew = await NodeFsPromises.stat(this.path).then(() => false, () => true)
    const file = await NodeFsPromises.open(this.path, isNew ? "wx+" : "r+", 0o600)
    const { end, place } = await Parts.lastOf(file).catch(async (cause: unknown) => {
      await file.close()
      throw cause
    })
    this.size = end
    this.place = Math.max(this.place, place, end === 0 ? await this.lastFull() : 0)
    this.since ??= this.place + 1
    const text = `{"_tag":"Opened","pid":${process.pid}}`
    await this.write(file, Parts.lineOf(this.place + 1, text), true, true)
    this.place++
    if (isNew) await PrivateFolder.sync(NodePath.dirname(this.path))
    return this.file = file
  }

  /** The last place of the parts that are full. */
  private async lastFull(): Promise<number> {
    const number = (await Parts.numbers(this.path)).at(-1)
    if (number === undefined) return 0
    const file = await NodeFsPromises.open(`${this.path}.${number}`, "r")
    try {
      return (await Parts.lastOf(file)).place
    } finally {
      await file.close()
    }
  }

  /** Writes all of it, or none. */
  private async write(
    file: NodeFsPromises.FileHandle,
    text: string,
    durable: boolean,
    isFirst = false
  ): Promise<void> {
    const bytes = Buffer.from(text)
    try {
      // what a crash has torn
      if (isFirst) await file.truncate(this.size)
      for (let at = 0; at < bytes.length;) {
        const { bytesWritten } = await file.write(bytes, at, bytes.length - at, this.size + at)
        at += bytesWritten
      }
      if (durable) await file.datasync()
      this.size += bytes.length
    } catch (cause) {
      // nobody knows what is on the disk: the next one opens it anew, behind the last line that is whole
      this.file = undefined
      await file.truncate(this.size).catch(() => {})
      await file.close().catch(() => {})
      throw cause
    }
  }

  /** The file is full. It is on the disk before it gets its number. */
  private async rotate(file: NodeFsPromises.FileHandle): Promise<void> {
    this.file = undefined
    await file.sync().finally(() => file.close())
    const number = ((await Parts.numbers(this.path)).at(-1) ?? 0) + 1
    await PrivateFolder.publish(this.path, `${this.path}.${number}`)
  }
}

const taken = new Error("another process writes this journal; here it can only be read until that one ends")

/** What tells whether a call runs. */
const tellsState: ReadonlySet<Journal.Tag> = new Set(["Arrived", "Settled", "Suspended"])
