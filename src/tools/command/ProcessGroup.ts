/**
 * Runs a command in a separate session and process group, so that everything it starts can be ended with it: the group,
 * and the processes outside it that `Descendants` finds.
 *
 * `effect/process` is not used: it ends a group by native timers rather than the Clock, signals a group immediately
 * when its leader fails, and cannot limit the wait for output.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NodeFs from "node:fs"
// The default import: the methods of the namespace have lost their process.
import NodeProcess from "node:process"
import type { Duplex, Readable, Writable } from "node:stream"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descendants from "./Descendants.ts"

/** How a command ended; one of the two is null. */
export interface Ended {
  readonly exitCode: number | null
  readonly signal: string | null
}

/** A running command. */
export interface ProcessGroup {
  /** Ends when the command itself did, whatever it left running. */
  readonly exited: Effect.Effect<Ended>
  /** Completes when all holders of its output have closed it. */
  readonly closed: Effect.Effect<void>
  /** What it reads, where it was asked for. */
  readonly stdin: Writable | null
  /** The further channels that were asked for, the first of which is its descriptor 3. */
  readonly channels: ReadonlyArray<Duplex>
}

/**
 * Starts a command; with the scope all it started is ended: TERM, and after `killGrace` KILL. The scope closes within
 * the grace and one second.
 *
 * Fails with `InvalidCommand` where the program cannot be started.
 */
export const make = Effect.fnUntraced(function*(options: {
  readonly argv: readonly [string, ...Array<string>]
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly killGrace: Duration.Duration
  /** May pause what the chunk is of. */
  readonly onOutput: (stream: "stdout" | "stderr", chunk: Buffer, of: Readable) => void
  /** Whether something will be written to it. Default: it reads nothing. */
  readonly input?: boolean | undefined
  /** How many further channels there are to it, from its descriptor 3 on. Default: none. */
  readonly channels?: number | undefined
  /**
   * It is a supervisor: when it dies, the kernel ends all it started, and TERM goes to these alone. Default: it is the
   * command itself.
   */
  readonly isSupervisor?: boolean | undefined
}): Effect.fn.Return<ProcessGroup, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  const exited = Deferred.makeUnsafe<Ended>()
  const closed = Deferred.makeUnsafe<void>()
  const [program, ...args] = options.argv
  const running = yield* Effect.acquireRelease(
    Effect.callback<Running, WorkspaceFailure.WorkspaceFailure>((resume) => {
      const { channels = 0, isSupervisor = false } = options
      const mark = isSupervisor ? undefined : Descendants.makeMark()
      const unused = Array.from({ length: Descendants.markedAs - 3 - channels }, () => "ignore" as const)
      const spawned = Result.try(() =>
        NodeChildProcess.spawn(program, args, {
          cwd: options.cwd,
          env: options.environment,
          detached: true,
          stdio: [
            options.input === true ? "pipe" : "ignore",
            "pipe",
            "pipe",
            ...Array.from({ length: channels }, () => "pipe" as const),
            ...mark === undefined ? [] : [...unused, mark.descriptor]
          ]
        }) as NodeChildProcess.ChildProcessByStdio<Writable | null, Readable, Readable>
      )
      if (Result.isFailure(spawned)) {
        mark?.close()
        resume(Effect.fail(notStarted(spawned.failure, program, options.cwd)))
        return
      }
      const child = spawned.success
      const running: Running = {
        pid: child.pid ?? 0,
        empty: false,
        descendants: Descendants.make(child.pid ?? 0, mark),
        stdin: child.stdin,
        isSupervisor,
        // as they are with `pipe`
        channels: (child.stdio.slice(3, 3 + channels) as ReadonlyArray<unknown>) as ReadonlyArray<Duplex>,
        detach: () => {
          mark?.close()
          started.delete(running)
          if (started.size === 0) NodeProcess.off("exit", endAll)
          child.stdin?.destroy()
          child.stdout.destroy()
          child.stderr.destroy()
          for (const channel of running.channels) channel.destroy()
        }
      }
      child.once("spawn", () => {
        if (started.size === 0) NodeProcess.once("exit", endAll)
        started.add(running)
        resume(Effect.succeed(running))
      })
      child.on("error", (cause) => {
        if (child.pid === undefined) mark?.close()
        resume(Effect.fail(notStarted(cause, program, options.cwd)))
      })
      child.once("exit", (exitCode, killedBy) => {
        running.empty = !isAlive(running.pid)
        Deferred.doneUnsafe(exited, Effect.succeed({ exitCode, signal: killedBy }))
      })
      child.once("close", () => Deferred.doneUnsafe(closed, Effect.void))
      // who stopped reading is seen by its end
      child.stdin?.on("error", () => undefined)
      for (const channel of running.channels) channel.on("error", () => undefined)
      for (const name of ["stdout", "stderr"] as const) {
        child[name].on("data", (chunk: Buffer) => options.onOutput(name, chunk, child[name]))
        // An output that breaks has ended; what came before it counts.
        child[name].on("error", () => undefined)
      }
    }),
    (running) => Effect.ensuring(end(running, options.killGrace), Effect.sync(running.detach))
  )
  yield* Effect.forkScoped(watch(running))
  const { channels, stdin } = running
  return { exited: Deferred.await(exited), closed: Deferred.await(closed), stdin, channels }
})

interface Running {
  /** Id of the leader and of the group. */
  readonly pid: number
  /**
   * Whether the group is empty. Determined when the leader is reaped, since its id may later belong to another group.
   */
  empty: boolean
  readonly descendants: Descendants.Descendants
  readonly stdin: Writable | null
  readonly channels: ReadonlyArray<Duplex>
  readonly isSupervisor: boolean
  /** Lets go of the outputs and of the process's own exit. */
  readonly detach: () => void
}

/** All that run: one listener for the exit of this process, since Node warns of a leak above ten. */
const started = new Set<Running>()

const endAll = () => {
  for (const { descendants, pid } of started) {
    signal(pid, "SIGKILL")
    for (const id of descendants.known()) signalOne(id, "SIGKILL")
  }
}

/** Looks at the processes while the command runs, so that one that loses its parent later is known. */
const watch = Effect.fnUntraced(function*(running: Running) {
  for (let wait = 20;; wait = Math.min(wait * 2, 30_000)) {
    yield* Effect.sleep(wait)
    yield* running.descendants.look
  }
})

/** Bound on the wait after KILL, which only a process stuck in the kernel outlives. */
const killedWithin = Duration.seconds(1)

const end = Effect.fnUntraced(function*(running: Running, grace: Duration.Duration) {
  if (yield* isGoneAfter(running, "SIGTERM", grace)) return
  yield* isGoneAfter(running, "SIGKILL", killedWithin)
})

/**
 * Sends a signal to the group, and once to each process that left it; tells whether all exited within the limit. It
 * polls at growing intervals, since the end of a group is not an event. A process that leaves the group meanwhile is
 * found at the next poll.
 */
const isGoneAfter = Effect.fnUntraced(function*(
  running: Running,
  name: "SIGTERM" | "SIGKILL",
  limit: Duration.Duration
) {
  const until = (yield* Clock.monotonicTimeNanos) + Duration.toNanosUnsafe(limit)
  const told = new Set<number>()
  for (let wait = 5;; wait = Math.min(wait * 2, 100)) {
    const all = yield* running.descendants.look
    const isRunning = all === undefined ? !running.empty && isAlive(running.pid) : all.length > 0
    if (!isRunning) return true
    // a second TERM may mean more than the first
    const isSpared = running.isSupervisor && name === "SIGTERM" && all !== undefined
    if (!running.empty && !isSpared && (wait === 5 || name === "SIGKILL")) signal(running.pid, name)
    for (const { group, id } of all ?? []) {
      if (group !== running.pid && !told.has(id) && signalOne(id, name)) told.add(id)
    }
    if ((yield* Clock.monotonicTimeNanos) >= until) return false
    yield* Effect.sleep(wait)
  }
})

/** Whether there was anybody to get the signal. Group 0 would be our own. */
const signal = (pid: number, name: "SIGTERM" | "SIGKILL" | 0): boolean =>
  pid > 0 && Result.isSuccess(Result.try(() => NodeProcess.kill(-pid, name)))

const signalOne = (pid: number, name: "SIGTERM" | "SIGKILL"): boolean =>
  pid > 1 && Result.isSuccess(Result.try(() => NodeProcess.kill(pid, name)))

const isAlive = (pid: number): boolean => signal(pid, 0)

const notStarted = (cause: unknown, program: string, cwd: string): WorkspaceFailure.WorkspaceFailure => {
  const code = WorkspaceFailure.codeOf(cause)
  // the operating system does not say which of the two is missing
  if (code === "ENOENT" && !NodeFs.existsSync(cwd)) {
    return WorkspaceFailure.make("InvalidCommand", program, `The folder "${cwd}" to start it in does not exist.`)
  }
  const known = Object.hasOwn(startProblems, code) ? startProblems[code] : undefined
  return WorkspaceFailure.make(
    "InvalidCommand",
    program,
    known ?? `The program could not be started (${code === "" ? "unknown reason" : code}). Try another command.`
  )
}

const startProblems: Readonly<Record<string, string>> = {
  ENOENT: "The program does not exist. Check its name, or use its path. It is not a command line for a shell.",
  EACCES: "The file is not a program that may be run. Check its mode, or run it with its interpreter.",
  ENOEXEC: "The file is not a program. Run it with its interpreter.",
  E2BIG: "The arguments are too long. Write them to a file and pass its path.",
  ERR_INVALID_ARG_VALUE: "An argument contains a NUL character. Use arguments without it."
}
