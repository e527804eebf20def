/**
 * The last durable entry of a journal, its place and its hash, kept in a file next to it (`journal.ndjson.end`). A
 * journal that ends earlier was cut, emptied or replaced. The mark is written after the entries and without waiting, so
 * it may lag but never runs ahead.
 */
import { createHash } from "node:crypto"
import { constants } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as ChainedLine from "../command/ChainedLine.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** The file with the mark. */
export class JournalEnd {
  private readonly path: string
  private readonly at: string
  private readonly journal: string
  private file: NodeFsPromises.FileHandle | undefined
  private known = ChainedLine.start
  private written = 0
  private writing: Promise<void> | undefined

  /** For the journal at a path with this key. A journal with another key does not count as cut. */
  constructor(path: string, key: Buffer) {
    this.path = path
    this.at = `${path}.end`
    this.journal = createHash("sha256").update(key).digest("hex").slice(0, 16)
  }

  /** Returns the last place; fails if the journal ends before the mark. */
  async check(lastOf: () => Promise<number>): Promise<number> {
    // read first: another process may write meanwhile
    const place = Math.max(this.known.place, (await read(this.path, this.journal)).place)
    const last = await lastOf()
    if (last >= place) return last
    throw new Error(
      `${this.path} ends at entry ${last}, and entry ${place} was on the disk: it was cut, emptied or replaced. ` +
        `Restore it, or remove ${this.at} to continue with what is left`
    )
  }

  /** Entries up to this one are on disk. */
  reached(last: ChainedLine.Link): void {
    if (last.place > this.known.place) this.known = last
    this.writing ??= this.write().finally(() => {
      this.writing = undefined
    })
  }

  async close(): Promise<void> {
    while (this.writing !== undefined) await this.writing
    await this.file?.close()
  }

  /** One that cannot be written says less than there is: nothing else depends on it. */
  private async write(): Promise<void> {
    try {
      const file = this.file ??= await opened(this.at)
      while (this.written < this.known.place) {
        const { chain, place } = this.known
        const line = `{"journal":"${this.journal}","place":${place},"chain":"${chain}"}`
        await file.write(`${line.padEnd(lineChars)}\n`, 0)
        this.written = place
      }
    } catch {
      this.written = this.known.place
    }
  }
}

/**
 * Reads the mark of a journal: place 0 if there is none, without a hash if an earlier version wrote it. `journal`
 * excludes marks of journals with another key.
 */
export const read = async (path: string, journal?: string): Promise<ChainedLine.Link> => {
  try {
    const text = await NodeFsPromises.readFile(`${path}.end`, "utf8")
    // an earlier version leaves the end of a longer line behind its own
    const [, marked, place, chain = ""] =
      /^\{"journal":"([0-9a-f]{16})","place":(\d+)(?:,"chain":"([\w-]{43})")?\} *$/m.exec(text) ?? []
    return place !== undefined && marked === (journal ?? marked) ? { place: Number(place), chain } : ChainedLine.start
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return ChainedLine.start
    throw cause
  }
}

/** The same for each, so that a line is written over the one before. */
const lineChars = 127

/** A file to be written over, made if it is not there. */
const opened = (path: string): Promise<NodeFsPromises.FileHandle> =>
  NodeFsPromises.open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
