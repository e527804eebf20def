/**
 * Writes the journal in a file, once it has the file's lock.
 *
 * A second file says what is on the disk: `journal.ndjson.end` has the last entry that a crash could not have lost, so
 * that a file which was cut, emptied or replaced is found out.
 */
import { fstatSync } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as Journal from "../../core/store/Journal.ts"
import * as JournalText from "../../core/store/JournalText.ts"
import * as Chain from "../command/ChainedLine.ts"
import * as FileLock from "../workspace/FileLock.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import { JournalEnd } from "./JournalEnd.ts"
import * as Index from "./JournalIndex.ts"
import * as Parts from "./JournalParts.ts"

/** Writes to the file, once it has its lock. */
export class JournalFileWriter {
  private readonly path: string
  private readonly maxBytes: number
  private lock: FileLock.FileLock | undefined
  private file: NodeFsPromises.FileHandle | undefined
  private size = 0
  /** Bytes that are on the disk for certain. */
  private durableSize = 0
  /** The last line. */
  private last: Chain.Link = Chain.start
  /** First place of its term. */
  private since: number | undefined
  /** Calls that were taken over and have no end yet. */
  private readonly claimed = new Set<string>()
  private readonly end: JournalEnd
  /** Of the file that is written. */
  private index = new Index.GrowingIndex()
  private isClosed = false
  /** What is done at the moment. */
  private turn: Promise<unknown> = Promise.resolve()

  constructor(path: string, maxBytes: number, key: Buffer) {
    this.path = path
    this.maxBytes = maxBytes
    this.end = new JournalEnd(path, key)
  }

  /** Fails where the journal was cut, emptied or replaced. */
  check(): Promise<void> {
    const last = async () => {
      const current = await Parts.opened(this.path)
      try {
        const { place } = current === undefined ? Chain.start : await Parts.lastOf(current)
        return place === 0 ? (await this.lastFull()).place : place
      } finally {
        await current?.close()
      }
    }
    return this.inTurn(async () => void await this.end.check(last))
  }

  /** What a query asks for of calls that it names, or of those without an end. */
  entriesOf(query: Journal.Query): Promise<ReadonlyArray<Journal.Recorded>> {
    return this.inTurn(() => this.look(query))
  }

  append(lines: ReadonlyArray<Journal.Line>, durable: boolean): Promise<void> {
    return this.inTurn(async () => {
      if (lines.length === 0) return
      const file = await this.asLeft(await this.open())
      let last = this.last
      const texts = lines.map(({ entry }) => {
        const { line, link } = Chain.after(last, JournalText.encode(entry))
        last = link
        return line
      })
      let at = this.size
      await this.write(file, texts.join(""), durable)
      for (const [index, { entry }] of lines.entries()) {
        const length = Buffer.byteLength(texts[index]!)
        this.index.add(entry, at, length)
        at += length
      }
      this.last = last
      if (durable) this.end.reached(last)
      if (this.claimed.size > 0) {
        for (const { entry } of lines) {
          if (entry._tag === "Settled" || entry._tag === "Suspended") this.claimed.delete(entry.key)
        }
      }
      // the entries are written; a file that stays too long is cut later
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
      await this.settle().finally(() => this.end.close())
      await this.file?.close()
      this.lock?.release()
    })
  }

  /** Says of all lines that they are on the disk. */
  private async settle(): Promise<void> {
    if (this.file === undefined || this.durableSize === this.size) return
    await this.file.datasync()
    this.end.reached(this.last)
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
    for (const recorded of await this.look({ keys })) {
      const { entry } = recorded
      if (Journal.isOfCall(entry) && tellsState.has(entry._tag)) last.set(entry.key, recorded)
    }
    return last
  }

  /** Finds entries by the indexes of the parts. */
  private async look(query: Journal.Query): Promise<ReadonlyArray<Journal.Recorded>> {
    const names = [...(await Parts.numbers(this.path)).map((it) => `${this.path}.${it}`), this.path]
    const indexes = await Promise.all(names.map((it) => this.indexOf(it)))
    const spansIn = query.keys === undefined ? spansOfOpen(indexes) : spansOfKeys(query.keys)
    const find = Parts.finder(query)
    const found: Array<Journal.Recorded> = []
    for (const [part, index] of indexes.entries()) {
      const spans = index === undefined ? [] : spansIn(index)
      if (spans.length === 0) continue
      const file = await Parts.opened(names[part]!)
      if (file === undefined) continue
      try {
        for (const line of await Parts.linesAt(file, spans)) {
          const recorded = find(line)
          if (recorded !== undefined) found.push(recorded)
        }
      } finally {
        await file.close()
      }
    }
    return query.order === "newest" ? found.reverse() : found
  }

  /** The index of a part; one that is missing is made, and kept where the journal is this writer's. */
  private async indexOf(name: string): Promise<Index.Index | undefined> {
    if (name === this.path && this.file !== undefined) return this.index
    const file = await Parts.opened(name)
    if (file === undefined) return undefined
    try {
      if (name === this.path) return await Parts.indexOf(file, (await Parts.lastOf(file)).end)
      const { size } = await file.stat()
      const kept = await Index.read(name, size)
      if (kept !== undefined) return kept
      const made = await Parts.indexOf(file, size)
      // where it cannot be kept it is made again
      if (this.lock !== undefined) await Index.write(name, made, size).catch(() => {})
      return made
    } finally {
      await file.close()
    }
  }

  private async open(): Promise<NodeFsPromises.FileHandle> {
    if (this.isClosed) throw new Error("it is closed")
    if (this.file !== undefined) return this.file
    this.lock ??= FileLock.take(`${this.path}.lock`)
    if (this.lock === undefined) throw taken
    return this.begin()
  }

  /** The file, if no other process has written to it, cut it or replaced it. */
  private async asLeft(file: NodeFsPromises.FileHandle): Promise<NodeFsPromises.FileHandle> {
    const { nlink, size } = fstatSync(file.fd)
    if (size === this.size && nlink > 0) return file
    this.file = undefined
    await file.close()
    throw new Error(
      nlink === 0
        ? `${this.path} was removed or replaced while it was written`
        : `${this.path} has ${size} bytes, and had ${this.size} when it was last written: somebody else has changed it`
    )
  }

  /** Begins to write behind the last line that is whole, with a line that says so. */
  private async begin(): Promise<NodeFsPromises.FileHandle> {
    const isNew = await NodeFsPromises.stat(this.path).then(() => false, () => true)
    // an existing one is kept
    if (isNew) await this.end.check(async () => (await this.lastFull()).place)
    const file = await NodeFsPromises.open(this.path, isNew ? "wx+" : "r+", 0o600)
    try {
      const found = await Parts.lastOf(file)
      const { end } = found
      const last = end === 0 ? await this.lastFull() : found
      await this.end.check(async () => last.place)
      this.size = end
      this.last = last
      this.index = await Parts.indexOf(file, end)
    } catch (cause) {
      await file.close()
      throw cause
    }
    this.since ??= this.last.place + 1
    const { line, link } = Chain.after(this.last, `{"_tag":"Opened","pid":${process.pid}}`)
    await this.write(file, line, true, true)
    this.last = link
    this.end.reached(link)
    if (isNew) await PrivateFolder.sync(NodePath.dirname(this.path))
    return this.file = file
  }

  /** The last line of the parts that are full. */
  private async lastFull(): Promise<Chain.Link> {
    const number = (await Parts.numbers(this.path)).at(-1)
    if (number === undefined) return Chain.start
    const file = await NodeFsPromises.open(`${this.path}.${number}`, "r")
    try {
      return await Parts.lastOf(file)
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
      if (durable) this.durableSize = this.size
    } catch (cause) {
      // the state of the disk is unknown: the next append opens the file again, after the last whole line
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
    this.end.reached(this.last)
    const number = ((await Parts.numbers(this.path)).at(-1) ?? 0) + 1
    const [full, index, size] = [`${this.path}.${number}`, this.index, this.size]
    await PrivateFolder.publish(this.path, full)
    await Index.write(full, index, size)
  }
}

const spansOfKeys = (keys: ReadonlyArray<string>) => (index: Index.Index): ReadonlyArray<Index.Span> =>
  inOrder(Array.from(new Set(keys)).flatMap((it) => index.spansOf(it)))

/** The lines of calls of which the last part that knows says that they have no end. */
const spansOfOpen = (indexes: ReadonlyArray<Index.Index | undefined>) => {
  const [known, open] = [new Set<string>(), new Set<string>()]
  for (const index of indexes.toReversed()) {
    for (const { hash, state } of index?.calls() ?? []) {
      if (state === "none" || known.has(hash)) continue
      known.add(hash)
      if (state === "open") open.add(hash)
    }
  }
  return (index: Index.Index): ReadonlyArray<Index.Span> =>
    inOrder(Array.from(index.calls()).flatMap((it) => open.has(it.hash) ? it.spans : []))
}

const inOrder = (spans: ReadonlyArray<Index.Span>): ReadonlyArray<Index.Span> =>
  spans.toSorted(([one], [other]) => one - other)

const taken = new Error("another process writes this journal; here it can only be read until that one ends")

/** What tells whether a call runs. */
const tellsState: ReadonlySet<Journal.Tag> = new Set(["Arrived", "Settled", "Suspended"])
