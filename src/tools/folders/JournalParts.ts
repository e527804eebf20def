/**
 * Reads the files of a journal: full parts in order, then the current one. A line is an entry with its place.
 */
import * as Result from "effect/Result"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { matches, type Query, type Recorded } from "../../core/store/JournalEntry.ts"
import * as JournalText from "../../core/store/JournalText.ts"
import * as Chain from "../command/ChainedLine.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Index from "./JournalIndex.ts"

/** A line with its place. */
export interface Line {
  readonly place: number
  readonly text: string
}

/**
 * Numbers of the parts that were full, the oldest first: of `journal.ndjson` they are `journal.ndjson.1`,
 * `journal.ndjson.2` and so on.
 */
export const numbers = async (path: string): Promise<ReadonlyArray<number>> => {
  const prefix = `${NodePath.basename(path)}.`
  return (await PrivateFolder.namesIn(NodePath.dirname(path)))
    .filter((it) => it.startsWith(prefix) && /^[1-9]\d*$/.test(it.slice(prefix.length)))
    .map((it) => Number(it.slice(prefix.length)))
    .sort((one, other) => one - other)
}

/** Tells whether there is a journal: a file that is written, or parts that were full. */
export const isThere = async (path: string): Promise<boolean> => {
  const current = await opened(path)
  await current?.close()
  return current !== undefined || (await numbers(path)).length > 0
}

/**
 * Reads the whole lines between two places, up to the end that the journal has when this begins, or from that end
 * backwards.
 */
export async function* lines(
  path: string,
  { after = 0, before = Infinity, order, since }: Pick<Query, "after" | "before" | "order" | "since">
): AsyncGenerator<Line> {
  const isNewestFirst = order === "newest"
  // opened first: a part that becomes full meanwhile is read twice, not left out
  const current = await opened(path)
  try {
    // what a crash has torn stands behind the last line
    const end = current === undefined ? 0 : (await lastOf(current)).end
    const full = (await numbers(path)).map((it) => `${path}.${it}`)
    let last = isNewestFirst ? before : after
    for (const name of isNewestFirst ? [path, ...full.reverse()] : [...full, path]) {
      const part = name === path ? current : await opened(name)
      if (part === undefined) continue
      try {
        const size = part === current ? end : (await part.stat()).size
        if (since !== undefined && part !== current && ((await Index.latestOf(name, size)) ?? since) < since) continue
        for await (const text of isNewestFirst ? backwards(part, size, last) : forwards(part, size, last)) {
          const place = placeOf(text)
          if (place === undefined) {
            const where = last === Infinity ? "at its end" : `${isNewestFirst ? "before" : "behind"} entry ${last}`
            throw noLine(where, text)
          }
          if (isNewestFirst ? place >= last : place <= last) continue
          if (isNewestFirst ? place <= after : place >= before) return
          last = place
          yield { place, text }
        }
      } finally {
        if (part !== current) await part.close()
      }
    }
  } finally {
    await current?.close()
  }
}

/** The last complete line of a file and where it ends. */
export interface Last extends Chain.Link {
  readonly end: number
}

/** Returns the last complete line of a file. Bytes after it were torn by a crash. */
export const lastOf = async (file: NodeFsPromises.FileHandle): Promise<Last> => {
  const { size } = await file.stat()
  let first = ""
  for await (const { end, line } of linesBackwards(file, size)) {
    const text = line.toString("utf8")
    const place = text.endsWith("\n") && isWhole(text) ? placeOf(text) : undefined
    if (place !== undefined) return { place, chain: Chain.read(text)?.chain ?? "", end }
    first = text
  }
  // complete lines of another format: a different file, which stays untouched
  if (first.endsWith("\n")) throw noLine("after entry 0", first)
  return { ...Chain.start, end: 0 }
}

/** The index of a part, made of all its lines up to an end. */
export const indexOf = async (file: NodeFsPromises.FileHandle, end: number): Promise<Index.GrowingIndex> => {
  const index = new Index.GrowingIndex()
  await eachLine(file, end, (line, at) => index.add(indexed(line.toString("utf8")), at, line.length + 1))
  return index
}

/** Reads the complete lines of a file up to an end, each with where it begins. */
export const eachLine = async (
  file: NodeFsPromises.FileHandle,
  end: number,
  run: (line: Buffer, at: number) => void
): Promise<void> => {
  /** The pieces of a line whose end is not read yet, and where it begins. */
  let [rest, at]: [Array<Buffer>, number] = [[], 0]
  for (let from = 0; from < end;) {
    const read = await slice(file, from, Math.min(end, from + 16 * chunk))
    if (read.length === 0) return
    from += read.length
    let begin = 0
    for (let until = read.indexOf(newline); until !== -1; until = read.indexOf(newline, begin)) {
      const line = Buffer.concat([...rest, read.subarray(begin, until)])
      run(line, at)
      at += line.length + 1
      rest = []
      begin = until + 1
    }
    rest.push(read.subarray(begin))
  }
}

export const linesAt = async (
  file: NodeFsPromises.FileHandle,
  spans: ReadonlyArray<Index.Span>
): Promise<ReadonlyArray<Line>> => {
  const lines: Array<Line> = []
  for (const [at, length] of spans) {
    const text = (await slice(file, at, at + length - 1)).toString("utf8")
    const place = placeOf(text)
    if (place === undefined) throw noLine(`at byte ${at}`, text)
    lines.push({ place, text })
  }
  return lines
}

/** Tells of a line which entry of a query it is, if it is one. */
export const finder = (query: Query): (line: Line) => Recorded | undefined => {
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
    return matches(query, recorded) ? recorded : undefined
  }
}

/** No entry: here a process begins to write. */
const isOpening = (text: string): boolean => /^\{"place":\d+,(?:"chain":"[^"]*",)?"_tag":"Opened",/.test(text)

const chunk = 1 << 16

const newline = 10

/** Opens a file that may not be there. */
export const opened = async (path: string): Promise<NodeFsPromises.FileHandle | undefined> => {
  try {
    return await NodeFsPromises.open(path, "r")
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}

const noLine = (where: string, text: string): Error =>
  new Error(`the line ${where} is not a journal entry: ${text.trimEnd().slice(0, 100)}`)

const placeOf = (text: string): number | undefined => {
  const [, place] = /^\{"place":(\d+),/.exec(text) ?? []
  return place === undefined ? undefined : Number(place)
}

/** What an index needs of a line; lines of another format are skipped. */
const indexed = (text: string): Index.Indexed => {
  try {
    return JSON.parse(text)
  } catch {
    return { _tag: "Gap", at: 0 }
  }
}

const isWhole = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Whole lines of a file from one near a place on: none that is behind it is left out. */
async function* forwards(file: NodeFsPromises.FileHandle, end: number, after: number): AsyncGenerator<string> {
  /** The pieces of a line whose end is not read yet. */
  let rest: Array<Buffer> = []
  for (let [at] = after === 0 ? [0] : await around(file, end, after); at < end;) {
    const read = await slice(file, at, Math.min(end, at + chunk))
    if (read.length === 0) return
    at += read.length
    const until = read.lastIndexOf(newline) + 1
    if (until > 0) {
      const lines = Buffer.concat([...rest, read.subarray(0, until)]).toString("utf8").split("\n")
      yield* lines.filter((it) => it !== "")
      rest = []
    }
    rest.push(read.subarray(until))
  }
}

/** The same backwards, the last one first: none that is before the place is left out. */
async function* backwards(file: NodeFsPromises.FileHandle, end: number, before: number): AsyncGenerator<string> {
  const [, from] = before === Infinity ? [0, end] : await around(file, end, before)
  for await (const { line } of linesBackwards(file, from)) {
    // what stands behind the last newline is torn, or being written
    if (line.at(-1) === newline && line.length > 1) yield line.toString("utf8", 0, line.length - 1)
  }
}

/** The lines of a file before a place, the last one first, each with its newline and with where it ends. */
async function* linesBackwards(
  file: NodeFsPromises.FileHandle,
  before: number
): AsyncGenerator<{ readonly line: Buffer; readonly end: number }> {
  let end = before
  /** The pieces of the line that ends there, the last one first. */
  let rest: Array<Buffer> = []
  for (let at = before; at > 0;) {
    const start = Math.max(0, at - chunk)
    const read = await slice(file, start, at)
    let until = at
    const newlineBefore = (place: number) => place <= start ? -1 : read.lastIndexOf(newline, place - start - 1)
    for (let found = newlineBefore(Math.min(until, end - 1)); found !== -1; found = newlineBefore(end - 1)) {
      yield { line: Buffer.concat([read.subarray(found + 1, until - start), ...rest.reverse()]), end }
      rest = []
      end = until = start + found + 1
    }
    rest.push(read.subarray(0, until - start))
    at = start
  }
  if (end > 0) yield { line: Buffer.concat(rest.reverse()), end }
}

/**
 * Where lines begin that are not far from a place, one before and one behind what has it: lines are in the order of
 * their places.
 */
const around = async (
  file: NodeFsPromises.FileHandle,
  end: number,
  wanted: number
): Promise<readonly [low: number, high: number]> => {
  let [low, high] = [0, end]
  while (high - low > chunk) {
    const start = await startOf(file, Math.floor((low + high) / 2))
    // a line that is longer than half of what is left
    if (start <= low) break
    const place = placeOf((await slice(file, start, Math.min(end, start + 100))).toString("latin1"))
    if (place === undefined || place > wanted) high = start
    else low = start
  }
  return [low, high]
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
