/**
 * Which processes a command started, also those that left its group.
 *
 * On Linux, `/proc` shows which processes belong to a command: those in its group or session, those whose parent
 * belongs to it, and those that hold a file which only the command inherited. A process that was seen once stays known,
 * even if its parent exits. A process is missed if it leaves the session, closes or moves that file and loses its
 * parent before anybody looks, or if it runs in a separate container. A process of another user is known by its parent,
 * and cannot be signalled.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NodeFs from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
// The default import: the methods of the namespace have lost their process.
import NodeProcess from "node:process"

/** A file that is inherited by whatever a command starts, and by nothing else. */
export interface Mark {
  /** What its children inherit, at `markedAs`. */
  readonly descriptor: number
  /** How `/proc` calls it. */
  readonly name: string
  readonly close: () => void
}

/** The descriptor that a mark has in a command: higher than what programs and shells count on. */
export const markedAs = 127

/** Makes a mark; `undefined` if the temporary folder is not writable. */
export const makeMark = (): Mark | undefined => {
  const made = Result.try((): Mark => {
    const folder = NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "command-"))
    const path = NodePath.join(folder, "mark")
    const { O_CREAT, O_EXCL, O_RDONLY } = NodeFs.constants
    const first = NodeFs.openSync(path, O_RDONLY | O_CREAT | O_EXCL, 0o600)
    // here it must not be where it is in a command: for a moment every new process is a copy of this one
    const descriptor = first === markedAs ? NodeFs.openSync(path, O_RDONLY) : first
    if (descriptor !== first) NodeFs.closeSync(first)
    NodeFs.rmSync(folder, { recursive: true })
    return { descriptor, name: `${path} (deleted)`, close: () => NodeFs.closeSync(descriptor) }
  })
  return Result.getOrUndefined(made)
}

/** The processes of one command. */
export interface Descendants {
  /**
   * Gives the running processes, including the command itself; `undefined` where `/proc` is missing. Processes that
   * have exited and were not reaped, as in a container without an init, do not count.
   */
  readonly look: Effect.Effect<ReadonlyArray<{ readonly id: number; readonly group: number }> | undefined>
  /** Gives the ids of known processes that still run, synchronously. */
  readonly known: () => ReadonlyArray<number>
}

/** Makes the processes of the command that leads a session and a group. */
export const make = (leader: number, mark: Mark | undefined): Descendants => {
  // by id, with when it started: an id may come to mean another process
  const seen = new Map<number, number>()
  const since = read(NodeProcess.pid)?.startedAt ?? 0
  // synchronous: a thousand small files are read faster than awaited
  const look = Effect.sync(() => {
    const names = Result.getOrElse(Result.try(() => NodeFs.readdirSync("/proc")), () => [])
    const ids = names.filter((name) => /^\d+$/.test(name)).map(Number)
    if (ids.length === 0) return undefined
    const processes = new Map(ids.flatMap((id) => {
      const it = read(id)
      return it === undefined || it.startedAt < since || id === NodeProcess.pid ? [] : [[id, it] as const]
    }))
    const answers = new Map<number, boolean>()
    const belongs = (it: Process): boolean => {
      const answer = answers.get(it.id)
      if (answer !== undefined) return answer
      // against a round of parents, which ids that changed hands may make
      answers.set(it.id, false)
      const parent = processes.get(it.parent)
      const isOwn = it.group === leader || it.session === leader || seen.get(it.id) === it.startedAt ||
        (parent !== undefined && belongs(parent)) || (mark !== undefined && isMarked(it.id, mark))
      answers.set(it.id, isOwn)
      return isOwn
    }
    const own = Array.from(processes.values()).filter(belongs)
    seen.clear()
    for (const { id, startedAt } of own) seen.set(id, startedAt)
    return own.filter(({ hasEnded }) => !hasEnded)
  })
  return {
    look,
    known: () => Array.from(seen).flatMap(([id, startedAt]) => read(id)?.startedAt === startedAt ? [id] : [])
  }
}

interface Process {
  readonly id: number
  /** It has exited and was not reaped. */
  readonly hasEnded: boolean
  readonly parent: number
  readonly group: number
  readonly session: number
  /** In ticks since the system came up. */
  readonly startedAt: number
}

const read = (id: number): Process | undefined => {
  const stat = Result.getOrUndefined(Result.try(() => NodeFs.readFileSync(`/proc/${id}/stat`, "latin1")))
  if (stat === undefined) return undefined
  // "pid (name) state parent group session …", where the name may hold anything
  const [state = "", parent, group, session, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return {
    id,
    hasEnded: state === "Z" || state === "X",
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startedAt: Number(rest[15])
  }
}

/** False for processes of other users, whose files are hidden. */
const isMarked = (id: number, mark: Mark): boolean =>
  Result.getOrUndefined(Result.try(() => NodeFs.readlinkSync(`/proc/${id}/fd/${markedAs}`))) === mark.name
