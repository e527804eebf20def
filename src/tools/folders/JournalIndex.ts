/**
 * Where the lines of each call are in a part of a journal, and whether it has an end there.
 *
 * The current part has its index in memory, a full part in a file next to it (`journal.ndjson.1.index`), which is rebuilt
 * if missing. The index records the length of its part, so a cut part is detected.
 */
import { createHash, randomUUID } from "node:crypto"
import * as NodeFsPromises from "node:fs/promises"
import { setImmediate as nextTurn } from "node:timers/promises"
import type { Tag } from "../../core/store/JournalEntry.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** A line: where it begins, and how many bytes it has. */
export type Span = readonly [at: number, length: number]

/** What a part says of a call at last: that it arrived, that it has its end, or neither. */
export type State = "none" | "open" | "ended"

/** The index of a part. A call is known by the hash of its key. */
export interface Index {
  /** The lines of the call with a key, in their order. */
  readonly spansOf: (key: string) => ReadonlyArray<Span>
  readonly calls: () => Iterable<Call>
}

/** A call in a part. */
export interface Call {
  readonly hash: string
  readonly state: State
  readonly spans: ReadonlyArray<Span>
}

/** What an index has to know of a line. */
export interface Indexed {
  readonly _tag: Tag
  readonly at: number
  readonly key?: string
}

/** The index of a part that is written. */
export class GrowingIndex implements Index {
  private readonly known = new Map<string, { hash: string | undefined; state: State; readonly spans: Array<Span> }>()
  private latest = 0
  private lines = 0

  add({ _tag, at: time, key }: Indexed, at: number, length: number): void {
    if (time > this.latest) this.latest = time
    if (key === undefined) return
    let call = this.known.get(key)
    if (call === undefined) this.known.set(key, call = { hash: undefined, state: "none", spans: [] })
    call.spans.push([at, length])
    this.lines++
    if (_tag === "Arrived") call.state = "open"
    else if (_tag === "Settled") call.state = "ended"
  }

  spansOf(key: string): ReadonlyArray<Span> {
    return this.known.get(key)?.spans ?? []
  }

  *calls(): Generator<Call> {
    for (const [key, it] of this.known) yield { hash: it.hash ??= hashOf(key), state: it.state, spans: it.spans }
  }

  /** The same as bytes, for a part of a size; others have their turn meanwhile. */
  async toBytes(size: number): Promise<Buffer> {
    const calls: Array<Call> = []
    for (const call of this.calls()) {
      if (calls.push(call) % atOnce === 0) await nextTurn()
    }
    calls.sort((one, other) => one.hash < other.hash ? -1 : 1)
    const bytes = Buffer.alloc(headerBytes + calls.length * callBytes + this.lines * lineBytes)
    let line = 0
    for (const [index, { hash, spans, state }] of calls.entries()) {
      const at = headerBytes + index * callBytes
      bytes.write(hash, at, "hex")
      bytes.writeUInt32BE(line, at + hashBytes)
      bytes.writeUInt32BE(spans.length * 4 + states.indexOf(state), at + hashBytes + 4)
      for (const [begin, length] of spans) {
        const to = headerBytes + calls.length * callBytes + line++ * lineBytes
        bytes.writeUIntBE(begin, to, 6)
        bytes.writeUInt32BE(length, to + 6)
      }
    }
    bytes.write(magic, 0, "latin1")
    bytes.writeDoubleBE(size, 8)
    bytes.writeDoubleBE(this.latest, 16)
    bytes.writeUInt32BE(calls.length, 24)
    bytes.write(checksumOf(bytes), checksumAt, "hex")
    return bytes
  }
}

/** Keeps the index of a part that is full. */
export const write = async (part: string, index: GrowingIndex, size: number): Promise<void> => {
  const made = `${pathOf(part)}.${randomUUID()}`
  try {
    await PrivateFolder.write(made, await index.toBytes(size))
    await PrivateFolder.publish(made, pathOf(part))
  } catch (cause) {
    await PrivateFolder.remove(made)
    throw cause
  }
}

/** The index of a part that is full and has a size; nothing where it is missing or was damaged. */
export const read = async (part: string, size: number): Promise<Index | undefined> => {
  const bytes = await bytesOf(part)
  if (bytes === undefined || bytes.length < headerBytes || bytes.toString("latin1", 0, magic.length) !== magic) {
    return undefined
  }
  if (bytes.toString("hex", checksumAt, checksumAt + hashBytes) !== checksumOf(bytes)) return undefined
  mustHave(part, size, bytes.readDoubleBE(8))
  return new KeptIndex(bytes)
}

/**
 * When the last thing happened that a part which is full has (epoch milliseconds), if an index says so. Fails where the
 * part has not the size of its index: it was cut.
 */
export const latestOf = async (part: string, size: number): Promise<number | undefined> => {
  let file: NodeFsPromises.FileHandle
  try {
    file = await NodeFsPromises.open(pathOf(part), "r")
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
  try {
    const header = Buffer.alloc(headerBytes)
    const { bytesRead } = await file.read(header, 0, headerBytes, 0)
    if (bytesRead < headerBytes || header.toString("latin1", 0, magic.length) !== magic) return undefined
    mustHave(part, size, header.readDoubleBE(8))
    return header.readDoubleBE(16)
  } finally {
    await file.close()
  }
}

const magic = "journal1"

const hashBytes = 16

const headerBytes = 48

const checksumAt = 32

const callBytes = hashBytes + 8

const lineBytes = 10

const states = ["none", "open", "ended"] as const

/** How many hashes are computed between yields. */
const atOnce = 1_000

const hashOf = (key: string): string => createHash("sha256").update(key).digest("hex").slice(0, 2 * hashBytes)

const pathOf = (part: string): string => `${part}.index`

/** Of all but itself. */
const checksumOf = (bytes: Buffer): string =>
  createHash("sha256").update(bytes.subarray(0, checksumAt)).update(bytes.subarray(headerBytes)).digest("hex")
    .slice(0, 2 * hashBytes)

const bytesOf = async (part: string): Promise<Buffer | undefined> => {
  try {
    return await NodeFsPromises.readFile(pathOf(part))
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}

const mustHave = (part: string, size: number, had: number): void => {
  if (size === had) return
  throw new Error(
    `${part} has ${size} bytes, and had ${had} when it was full: it was cut or replaced. Restore it, or remove ` +
      `${pathOf(part)} to continue with what is left`
  )
}

/** The bytes of an index: calls in the order of their hashes, then the lines of each. */
class KeptIndex implements Index {
  private readonly bytes: Buffer
  private readonly count: number

  constructor(bytes: Buffer) {
    this.bytes = bytes
    this.count = bytes.readUInt32BE(24)
  }

  spansOf(key: string): ReadonlyArray<Span> {
    const wanted = Buffer.from(hashOf(key), "hex")
    let [low, high] = [0, this.count]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const at = headerBytes + middle * callBytes
      const order = wanted.compare(this.bytes, at, at + hashBytes)
      if (order === 0) return this.callAt(at).spans
      if (order < 0) high = middle
      else low = middle + 1
    }
    return []
  }

  *calls(): Generator<Call> {
    for (let index = 0; index < this.count; index++) yield this.callAt(headerBytes + index * callBytes)
  }

  private callAt(at: number): Call {
    const { bytes, count } = this
    const first = bytes.readUInt32BE(at + hashBytes)
    const counted = bytes.readUInt32BE(at + hashBytes + 4)
    return {
      hash: bytes.toString("hex", at, at + hashBytes),
      state: states[counted % 4]!,
      get spans() {
        return Array.from({ length: Math.floor(counted / 4) }, (_, index) => {
          const from = headerBytes + count * callBytes + (first + index) * lineBytes
          return [bytes.readUIntBE(from, 6), bytes.readUInt32BE(from + 6)] as const
        })
      }
    }
  }
}
