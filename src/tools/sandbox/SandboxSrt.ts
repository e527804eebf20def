/**
 * The sandbox of `@anthropic-ai/sandbox-runtime`: on macOS that of the system, on Linux `bwrap` with `socat` and `rg`.
 *
 * The runtime has one configuration per process. Ours allows nothing, so all sandboxes of a process share it, and what
 * a command may do is said with the command. Commands in one workspace run one after the other: a command that runs
 * while the sandbox of another one is made could move what is to be protected.
 */
import type { SandboxManager, SandboxRuntimeConfig } from "@anthropic-ai/sandbox-runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { randomBytes } from "node:crypto"
import * as NodeFs from "node:fs"
import { createRequire } from "node:module"
import * as NodePath from "node:path"
import NodeProcess from "node:process"
import * as ProcessGroup from "../command/ProcessGroup.ts"
import type * as GuardedFiles from "../files/GuardedFiles.ts"
import type * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as HiddenFiles from "./HiddenFiles.ts"
import * as Sandbox from "./Sandbox.ts"
import * as SandboxBwrap from "./SandboxBwrap.ts"
import * as SandboxFolder from "./SandboxFolder.ts"
import * as SandboxProbe from "./SandboxProbe.ts"
import * as SandboxSystem from "./SandboxSystem.ts"
import * as SrtPolicy from "./SrtPolicy.ts"

/** What commands see and reach. */
export interface Options extends Sandbox.Mode {
  /** Hosts that commands can reach if a call requests it; others are refused. Default: none. */
  readonly network?: Pick<SandboxBwrap.Network, "allow" | "ask" | "allowPrivate"> | undefined
}

const name = "srt"

/** Without these it does not hold. What else holds is said. */
const needed: ReadonlyArray<Sandbox.Held> = ["files", "home", "network", "processes"]

/** Probes the sandbox and gives it, or what is instead of it. */
export const make = Effect.fnUntraced(function*(
  options: Options,
  user: SandboxBwrap.User
): Effect.fn.Return<Sandbox.Sandbox["Service"]> {
  if (options.mode === "off") return Sandbox.off
  const hosts = SrtPolicy.hosts(options.network)
  if (Result.isFailure(hosts)) return Sandbox.unavailable(name, hosts.failure, { mode: "required" })
  const wide = SandboxSystem.tooWide(options, user.home)
  if (wide !== undefined) return Sandbox.unavailable(name, wide, { mode: "required" })
  const installed = {
    bwrap: SandboxSystem.programIn(user.path, "bwrap"),
    socat: SandboxSystem.programIn(user.path, "socat")
  }
  const runtime = yield* Effect.result(started(SrtPolicy.ofProcess(installed)))
  if (Result.isFailure(runtime)) return Sandbox.unavailable(name, runtime.failure, options)
  const driver: Driver = {
    ...runtime.success,
    home: user.home,
    hasSecrets: HiddenFiles.of(options.hidden),
    readable: [
      ...SandboxSystem.system().map(({ path }) => path),
      ...SandboxSystem.tools(user.path, user.home),
      ...SandboxSystem.realOf(options.readable),
      ...runtime.success.own
    ],
    writable: SandboxSystem.realOf(options.writable),
    hosts: options.network === undefined ? undefined : hosts.success
  }
  return yield* SandboxProbe.probed(name, options, {
    ...driver,
    needed,
    start: (command) => start(driver, command)
  })
})

/**
 * Layer with the sandbox of `@anthropic-ai/sandbox-runtime`, which must be installed. Probed when the layer is built.
 * For macOS; on Linux `layerBwrap` is quicker and holds more.
 */
export const layerSrt = (options: Options = {}): Layer.Layer<Sandbox.Sandbox> =>
  Layer.effect(Sandbox.Sandbox, Effect.flatMap(SandboxBwrap.user, (user) => make(options, user)))

interface Runtime {
  readonly manager: typeof SandboxManager
  /** Its configuration, to see that nobody has replaced it. */
  readonly config: SandboxRuntimeConfig
  /** Folders of its own that commands need to see. */
  readonly own: ReadonlyArray<string>
}

interface Driver extends Runtime {
  readonly home: string | undefined
  readonly hasSecrets: (path: string) => boolean
  readonly readable: ReadonlyArray<string>
  readonly writable: ReadonlyArray<string>
  readonly hosts: ReadonlyArray<string> | undefined
}

/** There is one in a process. */
const runtimes = new Map<"only", Promise<Runtime>>()

/** Commands in one workspace take turns. */
const turns = new Map<string, Semaphore.Semaphore>()

const turnsOf = (root: string): Semaphore.Semaphore => {
  const known = turns.get(root) ?? Semaphore.makeUnsafe(1)
  turns.set(root, known)
  return known
}

/** Starts the runtime, if it does not run; the failure says why it cannot. */
const started = (config: SandboxRuntimeConfig): Effect.Effect<Runtime, string> =>
  Effect.tryPromise({
    try: () => {
      const runtime = runtimes.get("only") ?? initialize(config)
      runtimes.set("only", runtime)
      return runtime
    },
    catch: (cause) => {
      runtimes.delete("only")
      return cause instanceof Error ? cause.message : String(cause)
    }
  })

const initialize = async (config: SandboxRuntimeConfig): Promise<Runtime> => {
  const { SandboxManager: manager } = await import("@anthropic-ai/sandbox-runtime").catch(() => {
    throw new Error("the package @anthropic-ai/sandbox-runtime is not installed")
  })
  if (manager.getConfig() !== undefined) {
    throw new Error("this process uses the sandbox runtime with another configuration, and it can have one only")
  }
  if (!manager.isSupportedPlatform()) throw new Error("the sandbox runtime does not run on this system")
  const { errors } = manager.checkDependencies()
  if (errors.length > 0) throw new Error(errors.join("; "))
  await manager.initialize(config)
  const main = createRequire(import.meta.url).resolve("@anthropic-ai/sandbox-runtime")
  return { manager, config, own: SandboxSystem.realOf([NodePath.join(NodePath.dirname(main), "..", "vendor")]) }
}

const start = Effect.fnUntraced(function*(
  driver: Driver,
  command: Sandbox.Command
): Effect.fn.Return<Sandbox.Running, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  const { workspace } = command
  if (workspace !== undefined) {
    const turn = turnsOf(workspace.root)
    yield* Effect.acquireRelease(turn.take(1), () => turn.release(1), { interruptible: true })
  }
  const found = yield* SandboxFolder.find(command, driver)
  const state = { hasBegun: false }
  // unique and unguessable: the proxy knows a command by it
  const commandId = randomBytes(24).toString("base64url")
  const finish = yield* SandboxFolder.finishing(
    Effect.andThen(
      Effect.sync(() => {
        driver.manager.unregisterCommandNetworkLists(commandId)
        driver.manager.cleanupAfterCommand()
      }),
      // the runtime may need empty files of its own for another command
      SandboxFolder.setAside({
        ...command,
        isExpected: (path) => isEmpty(path) || command.isExpected?.(path) === true
      }, found)
    ),
    state
  )
  if (driver.manager.getConfig() !== driver.config) {
    return yield* SandboxFolder.failed("something else in this process has configured the sandbox runtime")
  }
  const wrapped = yield* Effect.uninterruptible(Effect.tap(
    Effect.result(Effect.tryPromise({
      try: () =>
        driver.manager.wrapWithSandboxArgv(
          within(command),
          "/bin/bash",
          SrtPolicy.ofCommand(confinementOf(driver, command, found)),
          undefined,
          command.cwd,
          { commandId }
        ),
      catch: (cause) => cause instanceof Error ? cause.message : String(cause)
    })),
    (it) =>
      Effect.sync(() => {
        state.hasBegun = Result.isSuccess(it)
      })
  ))
  if (Result.isFailure(wrapped)) return yield* SandboxFolder.failed(wrapped.failure)
  if (command.network === true && driver.hosts !== undefined) {
    driver.manager.registerCommandNetworkLists(commandId, { allowedDomains: [...driver.hosts] })
  }
  const [program = "/bin/bash", ...args] = wrapped.success.argv
  const group = yield* ProcessGroup.make({
    ...command,
    argv: [program, ...args],
    environment: {
      ...command.environment,
      ...driver.home === undefined ? {} : { HOME: driver.home },
      PATH: programs,
      GIT_OPTIONAL_LOCKS: "0"
    },
    isSupervisor: NodeProcess.platform === "linux"
  })
  return { ...group, finish }
})

const confinementOf = (
  driver: Driver,
  { workspace }: Sandbox.Command,
  { gitFolder, guarded, hidden, linked }: GuardedFiles.GuardedFiles
): SrtPolicy.Confinement => ({
  readable: [...driver.readable, ...gitFolder === undefined ? [] : [gitFolder]],
  writable: [...workspace === undefined ? [] : [workspace.root], ...driver.writable],
  guarded: Array.from(new Set([...guarded, ...linked])).filter((it) => !hidden.includes(it)),
  hidden: [...hidden, ...SandboxSystem.realOf(shared)]
})

/** The command, with what the runtime or we would set otherwise. */
const within = ({ argv, environment: { PATH = programs } }: Sandbox.Command): string =>
  `export PATH=${SrtPolicy.quoted([PATH])} TMPDIR=${SrtPolicy.quoted([temporary])}; exec ${SrtPolicy.quoted(argv)}`

/** Where the runtime's own programs are looked for, outside of the sandbox: in no folder that a command can change. */
const programs = "/usr/bin:/bin:/usr/sbin:/sbin"

/** On Linux a folder in memory, otherwise that of the runtime. */
const temporary = NodeProcess.platform === "linux" ? "/tmp" : "/tmp/claude"

/** The runtime lets commands change it, and others on this machine see it. */
const shared = NodeProcess.platform === "linux" ? ["/tmp/claude"] : []

/** A file without content, or a folder without files. */
const isEmpty = (path: string): boolean =>
  Result.getOrElse(
    Result.try(() => {
      const stats = NodeFs.lstatSync(path)
      return stats.isDirectory() ? NodeFs.readdirSync(path).length === 0 : stats.isFile() && stats.size === 0
    }),
    () => false
  )
