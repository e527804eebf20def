/**
 * The files of a journal, as they are read: parts that were full, in their order, and
 * the one that is written. A line is an entry, with its place before it.
 *
 * @since 0.1.0
 */
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as PrivateFolder from "./PrivateFolder.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * A line with its place.
 *
 * @category models
 * @since 0.1.0
 */
export interface Line {
  readonly place: number
  readonly text: string
}

/**
 * Numbers of the parts that were full, the oldest first: of `journal.ndjson` they are
 * `journal.ndjson.1`, `journal.ndjson.2` and so on.
 *
 * @category reading
 * @since 0.1.0
 */
export const numbers = async (path: string): Promise<ReadonlyArray<number>> => {
  const prefix = `${NodePath.basename(path)}.`
  return (await PrivateFolder.namesIn(NodePath.dirname(path)))
    .filter((it) => it.startsWith(prefix) && /^[1-9]\d*$/.test(it.slice(prefix.length)))
    .map((it) => Number(it.slice(prefix.length)))
    .sort((one, other) => one - other)
}

/**
 * Tells whether there is a journal: a file that is written, or parts that were full.
 *
 * @category reading
 * @since 0.1.0
 */
export const isThere = async (path: string): Promise<boolean> => {
  const current = await opened(path)
  await current?.close()
  return current !== undefined || (await numbers(path)).length > 0
}

/**
 * Reads all whole lines behind a place, up to the end that the journal has when this
 * begins.
 *
 * @category reading
 * @since 0.1.0
 */
export async function* lines(path: string, after = 0): AsyncGenerator<Line> {
  // opened first: a part that becomes full meanwhile is read twice, not left out
  const current = await opened(path)
  try {
    const end = current === undefined ? 0 : (await current.stat()).size
    let last = after
    for (const number of await numbers(path)) {
      const part = await opened(`${path}.${number}`)
      if (part === undefined) continue
      try {
        for await (const line of linesOf(part, (await part.stat()).size, last)) {
          last = line.place
          yield line
        }
      } finally {
        await part.close()
      }
    }
    if (current !== undefined) yield* linesOf(current, end, last)
  } finally {
    await current?.close()
  }
}

/**
 * The last whole line of a file that is one, and where it ends; nothing if there is
 * none. What comes behind it was torn.
 *
 * @category reading
 * @since 0.1.0
 */
export const lastOf = async (
  file: NodeFsPromises.FileHandle
): Promise<{ readonly place: number; readonly end: number }> => {
  let end = (await file.stat()).size
  while (end > 0) {
    const start = await startOf(file, end - 1)
    const text = (await slice(file, start, end)).toString("utf8")
    const place = text.endsWith("\n") && isWhole(text) ? placeOf(text) : undefined
    if (place !== undefined) return { place, end }
    end = start
  }
  return { place: 0, end: 0 }
}

/**
 * The line of an entry's text.
 *
 * @category writing
 * @since 0.1.0
 */
export const lineOf = (place: number, text: string): string => `{"place":${place},${text.slice(1)}\n`

// Utilities

const chunk = 1 << 16

const newline = 10

const opened = async (path: string): Promise<NodeFsPromises.FileHandle | undefined> => {
  try {
    return await NodeFsPromises.open(path, "r")
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}

const placeOf = (text: string): number | undefined => {
  const [, place] = /^\{"place":(\d+),/.exec(text) ?? []
  return place === undefined ? undefined : Number(place)
}

const isWhole = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

async function* linesOf(file: NodeFsPromises.FileHandle, end: number, after: number): AsyncGenerator<Line> {
  let rest: Buffer = Buffer.alloc(0)
  for (let at = await behind(file, end, after); at < end;) {
    const read = await slice(file, at, Math.min(end, at + chunk))
    if (read.length === 0) return
    at += read.length
    const all = Buffer.concat([rest, read])
    const until = all.lastIndexOf(newline) + 1
    rest = all.subarray(until)
    for (const text of all.toString("utf8", 0, until).split("\n")) {
      if (text === "") continue
      const place = placeOf(text)
      if (place === undefined) {
        throw new Error(`what stands behind entry ${after} is no line of a journal: ${text.slice(0, 100)}`)
      }
      if (place > after) yield { place, text }
    }
  }
}

/** Where to begin reading for what is behind a place: lines are in the order of their places. */
const behind = async (file: NodeFsPromises.FileHandle, end: number, after: number): Promise<number> => {
  if (after === 0) return 0
  let [low, high] = [0, end]
  while (high - low > chunk) {
    const start = await startOf(file, Math.floor((low + high) / 2))
    const place = placeOf((await slice(file, start, Math.min(end, start + 100))).toString("latin1"))
    if (place === undefined || place > after || start <= low) high = start
    else low = start
  }
  return low
}

/** Where the line begins that has the byte at `at`, its newline included. */
const startOf = async (file: NodeFsPromises.FileHandle, at: number): Promise<number> => {
  for (let end = at; end > 0;) {
    const start = Math.max(0, end - chunk)
    const found = (await slice(file, start, end)).lastIndexOf(newline)
    if (found !== -1) return start + found + 1
    end = start
  }
  return 0
}

const slice = async (file: NodeFsPromises.FileHandle, start: number, end: number): Promise<Buffer> => {
  const buffer = Buffer.alloc(end - start)
  const { bytesRead } = await file.read(buffer, 0, buffer.length, start)
  return buffer.subarray(0, bytesRead)
}
