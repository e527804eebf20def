/** Processes over shared permits that are killed and stopped: what their ledger says. */
import * as Effect from "effect/Effect"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { until } from "./commandProcess.ts"
import type { Options } from "./permitWorker.ts"
import { type Found, start } from "./stateWorkers.ts"

interface Line {
  readonly what: string
  readonly pid: number
  readonly call: string
  readonly rest: ReadonlyArray<string>
}

/** A ledger, and processes that write into it. */
const trial = (options: Omit<Options, "ledger">) =>
  Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "permits-"))),
      (it) => Effect.sync(() => rmSync(it, { recursive: true }))
    )
    const ledger = join(folder, "ledger")
    writeFileSync(ledger, "")
    const read = (): ReadonlyArray<Line> =>
      readFileSync(ledger, "utf8").split("\n").slice(0, -1).map((line) => {
        const [what, pid, call, ...rest] = line.split(" ")
        return { what: what!, pid: Number(pid), call: call!, rest }
      })
    return { read, worker: start({ ...options, ledger }, "permitWorker") }
  })

/** How many are in handlers after each line, by what they hold there; those of a killed process are not. */
const most = (lines: ReadonlyArray<Line>, killed: ReadonlyMap<number, number>): ReadonlyMap<string, number> => {
  const inside = new Map<string, Set<Line>>()
  const all = new Map<string, number>()
  for (const [index, line] of lines.entries()) {
    for (const thing of line.rest.length === 0 || line.what === "ended" ? ["cap"] : line.rest) {
      const there = inside.get(thing) ?? new Set()
      inside.set(thing, there)
      for (const it of there) {
        const isOver = line.what === "out" && it.pid === line.pid && it.call === line.call
        if (isOver || (killed.get(it.pid) ?? Infinity) <= index) there.delete(it)
      }
      if (line.what === "in") there.add(line)
      all.set(thing, Math.max(all.get(thing) ?? 0, there.size))
    }
  }
  return all
}

const tagsOf = (lines: ReadonlyArray<Line>): ReadonlyArray<string> =>
  Array.from(new Set(lines.filter((it) => it.what === "ended").map((it) => it.rest[0]!)))

/** Two processes over one cap of 4, of which one is killed in the middle, again and again. */
export const cap = (url: string, kills: number, lease = 2_000) =>
  Effect.gen(function*() {
    const { read, worker } = yield* trial({ url, together: 6, work: "cap", lease: `${lease} millis` })
    const stays = yield* worker
    const killed = new Map<number, number>()
    const problems: Array<string> = []
    let longest = 0
    for (let n = 0; n < kills; n++) {
      const goes = yield* worker
      const from = read().length
      const both = () => new Set(read().slice(from).map((it) => it.pid)).size === 2
      yield* until(both)
      yield* Effect.sleep(500)
      goes.child.kill("SIGKILL")
      yield* goes.over
      const at = read().length
      killed.set(goes.child.pid!, at)
      const since = Date.now()
      // the other one has all four again
      yield* until(() => (most(read().slice(at), new Map()).get("cap") ?? 0) >= 4)
      longest = Math.max(longest, Date.now() - since)
    }
    const lines = read()
    const peak = most(lines, killed).get("cap") ?? 0
    if (peak > 4) problems.push(`${peak} at once`)
    if (longest > 2 * lease) problems.push(`permits of a killed process returned after ${longest} ms`)
    for (const tag of tagsOf(lines)) if (tag !== "Succeeded") problems.push(`a call was ${tag}`)
    problems.push(...stays.written.errors.split("\n").filter((it) => it !== ""))
    const count = lines.filter((it) => it.what === "out").length
    const found: Found = {
      summary:
        `${count} calls of two processes over a cap of 4, at most ${peak} at once; of ${kills} killed processes ` +
        `all permits were back after ${longest} ms at the latest (lease ${lease} ms)`,
      problems
    }
    return found
  }).pipe(Effect.scoped)

/** Three processes whose calls need several of four keys. */
export const keys = (url: string, calls: number) =>
  Effect.gen(function*() {
    const { read, worker } = yield* trial({ url, together: 6, work: "keys", lease: "9 seconds" })
    yield* Effect.all([worker, worker, worker], { concurrency: 3 })
    yield* until(() => read().filter((it) => it.what === "out").length >= calls)
    const lines = read()
    const problems = Array.from(most(lines, new Map())).flatMap(([key, count]) =>
      count > 1 && key !== "cap" ? [`${count} held ${key} at once`] : []
    )
    const shares = new Map<number, number>()
    for (const { pid, what } of lines) if (what === "out") shares.set(pid, (shares.get(pid) ?? 0) + 1)
    if (shares.size < 3) problems.push(`only ${shares.size} processes had a turn`)
    for (const tag of tagsOf(lines)) if (tag !== "Succeeded") problems.push(`a call was ${tag}`)
    const found: Found = {
      summary: `calls of three processes with several keys each: ${Array.from(shares.values()).join(" + ")}`,
      problems
    }
    return found
  }).pipe(Effect.scoped)

/** A process that stands still past its lease while it writes, and another one that has the key meanwhile. */
export const frozen = (url: string, stops: number, lease = 1_000) =>
  Effect.gen(function*() {
    const { read, worker } = yield* trial({ url, together: 1, work: "writes", lease: `${lease} millis` })
    const [one, other] = yield* Effect.all([worker, worker], { concurrency: 2 })
    const wrote = (pid: number) => read().filter((it) => it.what === "wrote" && it.pid === pid).length
    const more = (pid: number, count = 1) => {
      const before = wrote(pid)
      return until(() => wrote(pid) >= before + count)
    }
    for (let n = 0; n < stops; n++) {
      yield* more(one.child.pid!)
      one.child.kill("SIGSTOP")
      yield* more(other.child.pid!, 30)
      one.child.kill("SIGCONT")
      yield* Effect.sleep(300)
    }
    const lines = read().filter((it) => it.what === "wrote")
    const seen = new Set<string>()
    const problems: Array<string> = []
    let last = ""
    for (const { call, pid } of lines) {
      const name = `${pid} ${call}`
      if (name !== last && seen.has(name)) problems.push(`${name} wrote after ${last} had begun`)
      seen.add(name)
      last = name
    }
    const lost = read().filter((it) => it.what === "ended" && it.rest[0] === "Cancelled").length
    const found: Found = {
      summary: `${stops} stops past the lease: ${lost} calls cancelled, ${lines.length} writes of ${seen.size} calls`,
      problems
    }
    return found
  }).pipe(Effect.scoped)
