/**
 * The last place of a journal that a crash could not have lost, kept beside it (`journal.ndjson.end`): a journal that
 * ends before it was cut, emptied or replaced.
 *
 * It is written after what it tells of is on the disk, and nobody waits for it: it may say less than there is, and
 * never more.
 */
import { createHash } from "node:crypto"
import { constants } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/** The file that has it. */
export class JournalEnd {
  private readonly path: string
  private readonly at: string
  private readonly journal: string
  private file: NodeFsPromises.FileHandle | undefined
  private known = 0
  private written = 0
  private writing: Promise<void> | undefined

  /** Of the journal at a path, with a key: another journal there is none that was cut. */
  constructor(path: string, key: Buffer) {
    this.path = path
    this.at = `${path}.end`
    this.journal = createHash("sha256").update(key).digest("hex").slice(0, 16)
  }

  /** Fails where a journal ends before what was on the disk; gives where it ends. */
  async check(lastOf: () => Promise<number>): Promise<number> {
    // first: somebody else may write meanwhile
    const place = Math.max(this.known, await this.read())
    const last = await lastOf()
    if (last >= place) return last
    throw new Error(
      `${this.path} ends at entry ${last}, and entry ${place} was on the disk: it was cut, emptied or replaced. ` +
        `Restore it, or remove ${this.at} to go on with what is left`
    )
  }

  /** What was written up to a place is on the disk. */
  reached(place: number): void {
    if (place > this.known) this.known = place
    this.writing ??= this.write().finally(() => {
      this.writing = undefined
    })
  }

  async close(): Promise<void> {
    while (this.writing !== undefined) await this.writing
    await this.file?.close()
  }

  private async read(): Promise<number> {
    try {
      const text = await NodeFsPromises.readFile(this.at, "utf8")
      const [, journal, place] = /^\{"journal":"([0-9a-f]{16})","place":(\d+)\}\s*$/.exec(text) ?? []
      return journal === this.journal ? Number(place) : 0
    } catch (cause) {
      if (WorkspaceFailure.codeOf(cause) === "ENOENT") return 0
      throw cause
    }
  }

  /** One that cannot be written says less than there is: nothing else depends on it. */
  private async write(): Promise<void> {
    try {
      const file = this.file ??= await opened(this.at)
      while (this.written < this.known) {
        const place = this.known
        const line = `{"journal":"${this.journal}","place":${place}}`
        await file.write(`${line.padEnd(lineChars)}\n`, 0)
        this.written = place
      }
    } catch {
      this.written = this.known
    }
  }
}

// Utilities

/** The same for each, so that a line is written over the one before. */
const lineChars = 79

/** A file to be written over, made if it is not there. */
const opened = (path: string): Promise<NodeFsPromises.FileHandle> =>
  NodeFsPromises.open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
