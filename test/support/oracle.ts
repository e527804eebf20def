/**
 * The life of calls by the contract, in a world where nothing waits for a permit:
 * what happens when, and what becomes of whatever a call had reserved.
 */
import {
  type Batch,
  type Call,
  coolingOf,
  cut,
  type Ended,
  equalTo,
  hasKey,
  isGranted,
  type Key,
  keysOf,
  limits,
  type Now,
  order,
  type Principal,
  type Process,
  refusedAtArrival,
  textOf,
  type Wave
} from "./oracleGates.ts"
import type { Part, World } from "./oracleWorld.ts"

const hour = 3_600_000
const askedFor = 300_000
const grace = 5000

/** What becomes of every call of every wave; undefined if it hangs on what happens first in one moment. */
export const foretell = (given: World): ReadonlyArray<ReadonlyArray<Ended>> | undefined => {
  const world: Now = { ...given, now: 0 }
  const { rules, settings, tools } = world
  let moment = 0
  let ambiguous = false
  let last: { readonly at: number; readonly whose: unknown } | undefined
  let turn: { readonly at: number; readonly wave: unknown } = { at: -1, wave: undefined }
  let due: Array<{ at: number; moment: number; whose: unknown; run: () => void }> = []
  const principals = new Map<string, Principal>()
  const batches = new Map<string, Batch>()
  const processes = new Map<string, Process>()
  const executions = new Map<string, number>()
  const answers = [...world.answers ?? []]
  let questions: Array<{ readonly call: Call; readonly answered: (by: string | undefined) => void }> = []

  const later = (wait: number, whose: unknown, run: () => void) =>
    void due.push({ at: world.now + wait, moment: moment++, whose, run })

  const until = (isOver: () => boolean) => {
    while (!isOver()) {
      due = due.toSorted((a, b) => a.at - b.at || a.moment - b.moment)
      const next = due.shift()
      if (next === undefined) throw new Error("the model is stuck")
      if (last !== undefined && last.at === next.at && last.whose !== next.whose) ambiguous = true
      world.now = next.at
      last = next
      next.run()
    }
  }

  // Runs

  const play = ([first, ...rest]: ReadonlyArray<ReadonlyArray<Call>>): void => {
    if (first === undefined) return
    const run = first.filter((it) => it.state !== "ended")
    let left = run.length
    if (left === 0) return play(rest)
    const oneByOne = run.some((it) =>
      tools[it.name]?.class === "SerialMut" && refusedAtArrival(world, it) === undefined
    )
    const next = (index: number) => {
      if (index < run.length) dispatch(run[index]!)
    }
    for (const [index, call] of run.entries()) {
      call.done = () => {
        left--
        if (left === 0) play(rest)
        else if (oneByOne) next(index + 1)
      }
    }
    if (oneByOne) next(0)
    else for (const call of run) dispatch(call)
  }

  // The end of a call

  const end = (call: Call, says: string) => {
    if (call.state === "ended") return
    const { index, name, wave } = call
    const { process } = wave
    const { batch } = process
    const neverStarted = call.state === "waiting"
    call.state = "ended"
    call.outcome = {
      says,
      start: call.start === undefined ? undefined : call.start - wave.began,
      end: world.now - wave.began
    }
    batch.calls--
    batch.used = world.now
    if (says === "Succeeded") process.succeeded.add(name)
    const failed = says === "Failed" || says === "TimedOut"
    // what failed in another process may be tried in this one
    if (failed && tools[name]!.retryable === false && call.replayed !== true) process.blocked.add(name)
    if (call.held !== undefined && neverStarted) giveBack(call)
    if (settings.stop && (says.startsWith("Denied") || says === "TimedOut")) {
      wave.place = Math.min(wave.place, index)
      // who joined a running call gets its outcome, wherever the wave ends
      const waits = ({ joined, state }: Call) => state === "waiting" && joined?.call.state !== "running"
      for (const other of wave.calls) if (other.index > index && waits(other)) end(other, "Skipped")
    }
    questions = questions.filter((it) => it.call !== call)
    call.done()
  }

  const giveBack = ({ held, name, wave }: Call) => {
    const { batch } = wave.process
    batch.counts.set(name, batch.counts.get(name)! - 1)
    if (held!.group && --batch.chosen!.holders === 0) batch.chosen = undefined
    const cooling = coolingOf(batch.principal, name)
    cooling.running--
    if (held!.key !== undefined) forget(held!.key)
  }

  const forget = (key: Key) => {
    key.gone = true
    const { wave } = key.call
    for (const { keys } of [...principals.values(), ...batches.values(), wave.process, wave]) {
      for (const [text, it] of keys) if (it === key) keys.delete(text)
    }
    for (const waiter of key.waiters.splice(0)) dispatch(waiter)
  }

  // Dispatch, gate by gate

  const dispatch = (call: Call) => {
    if (call.state === "ended") return
    const { index, name, wave } = call
    const { process } = wave
    const { batch } = process
    const { principal } = batch
    if (index > wave.place) return end(call, "Skipped")
    if (world.now > wave.began) {
      if (turn.at === world.now && turn.wave !== wave) ambiguous = true
      turn = { at: world.now, wave }
    }
    call.dispatched = true
    call.shared = false
    call.joined = undefined
    const atArrival = refusedAtArrival(world, call)
    if (atArrival !== undefined) return end(call, `Denied ${atArrival}`)
    if (call.cancelled === true) return end(call, "Cancelled")
    if (process.blocked.has(name)) return end(call, "Denied ToolBlocked")
    // nobody can allow it: it is refused before anything is reserved
    if (world.answers === null && settings.ask.includes(name)) return end(call, "Denied PermissionDenied noApprover")

    const equal = equalTo(world, call)
    if (equal === "refused") return end(call, "Denied DuplicateCall")
    const forbidden = order(world, process, name)
    if (forbidden !== undefined) return end(call, `Denied ${forbidden}`)
    if (equal !== undefined) {
      call.shared = true
      return permitted(call, () => share(call, equal))
    }

    const limit = limits(world, batch, name)
    if (limit !== undefined) return end(call, `Denied ${limit}`)

    const group = rules.exclusive?.includes(name) === true
    const cooling = coolingOf(principal, name)
    batch.counts.set(name, (batch.counts.get(name) ?? 0) + 1)
    if (group) batch.chosen = { tool: name, holders: (batch.chosen?.holders ?? 0) + 1 }
    cooling.running++
    const key: Key | undefined = hasKey(world, name)
      ? { call, began: moment++, waiters: [], ended: undefined, outlived: false, gone: false }
      : undefined
    if (key !== undefined) keysOf(world, wave).set(textOf(call), key)
    call.held = { key, group }
    permitted(call, () => start(call))
  }

  // People

  const permitted = (call: Call, go: () => void) => {
    const { name, to, wave } = call
    if (call.allowed === true || !settings.ask.includes(name) || isGranted(world, call)) return go()
    const answered = (by: string | undefined) => {
      if (call.state === "ended" || !questions.includes(question)) return
      questions = questions.filter((it) => it !== question)
      if (by !== undefined) return end(call, `Denied PermissionDenied ${by}`)
      call.allowed = true
      go()
    }
    const question = { call, answered }
    questions.push(question)
    later(askedFor, wave, () => answered("timeout"))
    const found = answers.findIndex((it) => it.tool === name)
    if (found === -1) return
    const { after, says } = answers.splice(found, 1)[0]!
    later(after, wave, () => {
      if (!questions.includes(question)) return
      if (says === "no") return answered("user")
      const { grants } = wave.process.batch.principal
      if (says !== "once" && to?.length !== 0) {
        grants.push({ tool: name, to, until: says === "scope" ? Infinity : world.now + says })
      }
      answered(undefined)
      for (const other of questions) {
        if (other.call.wave.process.batch.principal.grants === grants && isGranted(world, other.call)) {
          other.answered(undefined)
        }
      }
    })
  }

  // Start and execution

  const share = (call: Call, key: Key) => {
    // people may have thought for longer than it ran, or longer than it counts
    if (key.gone || equalTo(world, call) === undefined) return dispatch(call)
    if (key.ended !== undefined) {
      call.replayed = true
      return end(call, key.ended.says)
    }
    key.waiters.push(call)
    call.joined = key
  }

  const start = (call: Call) => {
    const { name, wave } = call
    const { process } = wave
    if (process.blocked.has(name)) return end(call, "Denied ToolBlocked")
    const forbidden = order(world, process, name)
    if (forbidden !== undefined) return end(call, `Denied ${forbidden}`)
    const { class: kind, runs, timeout } = tools[name]!
    const execution = executions.get(name) ?? 0
    executions.set(name, execution + 1)
    const { deaf, fails, takes } = runs[Math.min(execution, runs.length - 1)]!
    const { principal } = process.batch
    const changes = () => kind === "ReadOnly" ? undefined : void principal.changes.push({ moment: moment++, by: call })
    call.state = "running"
    call.start = world.now
    changes()
    if (takes <= timeout) later(takes, wave, () => stop(fails === true ? "Failed" : "Succeeded", false))
    else later(timeout, wave, () => stop("TimedOut", deaf === true))
    const cancelled = () => stop("Cancelled", deaf === true)
    running.set(call, cancelled)
    const stop = (says: string, outlives: boolean) => {
      if (call.state === "ended") return
      running.delete(call)
      const { key } = call.held!
      const cooling = coolingOf(principal, name)
      const waiters = key?.waiters.splice(0) ?? []
      const left = () => {
        changes()
        cooling.running--
        cooling.last = world.now
      }
      changes()
      if (!outlives) left()
      if (outlives) {
        call.left = call.start! + takes
        if (key !== undefined) key.outlived = true
        later(call.start! + takes - world.now, call, () => {
          left()
          if (key !== undefined) forget(key)
        })
      } else if (key !== undefined) {
        if (says === "Succeeded" || says === "Failed" && settings.keepFailed) key.ended = { at: world.now, says }
        else forget(key)
      }
      // who shares an execution has been running with it
      const sharing = says === "Cancelled" ? [] : waiters.filter((it) => it.state === "waiting")
      for (const waiter of sharing) waiter.state = "running"
      if (settings.stop && sharing.filter((it) => it.wave !== wave).length > 1) ambiguous = true
      end(call, says)
      for (const waiter of waiters) {
        if (sharing.includes(waiter)) end(waiter, says)
        else dispatch(waiter)
      }
    }
  }
  const running = new Map<Call, () => void>()

  // The script

  const principalOf = (id: string) => {
    const known = principals.get(id) ?? { changes: [], grants: [], cooling: new Map(), keys: new Map() }
    principals.set(id, known)
    return known
  }

  const batchOf = (principal: string, id: string) => {
    const name = JSON.stringify([principal, id])
    const known: Batch = batches.get(name) ??
      {
        principal: principalOf(principal),
        counts: new Map(),
        chosen: undefined,
        keys: new Map(),
        calls: 0,
        used: world.now
      }
    batches.set(name, known)
    return known
  }

  const begin = ({ batch: id, calls, fresh, principal }: Part): Wave => {
    const name = JSON.stringify([principal, id])
    const batch = batchOf(principal, id)
    let process = processes.get(name)
    if (process === undefined || fresh) {
      process = { batch, succeeded: new Set(), blocked: new Set(), keys: new Map() }
      processes.set(name, process)
    }
    if (batch.calls === 0 && world.now - batch.used > hour) {
      batch.counts.clear()
      batch.chosen = undefined
      batch.keys.clear()
    }
    batch.used = world.now
    batch.calls += calls.length
    const wave: Wave = { process, began: world.now, calls: [], keys: new Map(), place: Infinity }
    for (const [index, call] of calls.entries()) {
      ;(wave.calls as Array<Call>).push({ ...call, wave, index, state: "waiting", done: () => {} })
    }
    return wave
  }

  const told: Array<ReadonlyArray<Ended>> = []
  for (const move of world.moves) {
    if ("advance" in move) {
      let over = false
      later(move.advance, "script", () => over = true)
      until(() => over)
    } else if ("close" in move) {
      const name = JSON.stringify([move.close.principal, move.close.batch])
      const keys = batches.get(name)?.keys ?? new Map<string, Key>()
      batches.delete(name)
      processes.delete(name)
      // what still runs keeps its key
      for (const [text, key] of keys) {
        if (key.outlived) batchOf(move.close.principal, move.close.batch).keys.set(text, key)
      }
    } else if ("revoke" in move) {
      const principal = principalOf(move.revoke.principal)
      principal.grants = principal.grants.filter((it) => it.tool !== move.revoke.tool)
    } else {
      const waves = move.waves.map(begin)
      const { cancel } = move
      if (cancel !== undefined) {
        later(cancel.at, "script", () => {
          for (const call of waves.flatMap((it) => it.calls)) {
            if (call.id !== cancel.id || call.state === "ended") continue
            if (call.dispatched !== true) call.cancelled = true
            else (running.get(call) ?? (() => end(call, "Cancelled")))()
          }
        })
      }
      let left = 0
      if (move.interrupt !== undefined) {
        later(move.interrupt, "script", () => {
          const open = waves.flatMap((it) => it.calls).filter((it) => it.state !== "ended")
          for (const call of open) call.done = () => {}
          for (const call of open) if (call.state === "waiting") end(call, "Cancelled")
          for (const call of open) running.get(call)?.()
          // the caller waits for clean-up
          for (const call of open) left = Math.max(left, Math.min(grace, (call.left ?? world.now) - world.now))
        })
      }
      for (const wave of waves) play(cut(world, wave.calls))
      const calls = waves.flatMap((it) => it.calls)
      until(() => calls.every((it) => it.state === "ended"))
      if (left > 0) {
        let over = false
        later(left, "script", () => over = true)
        until(() => over)
      }
      for (const wave of waves) {
        told.push(wave.calls.map((it) => it.shared === true ? { ...it.outcome!, start: undefined } : it.outcome!))
      }
    }
  }
  return ambiguous ? undefined : told
}
