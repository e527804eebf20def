/**
 * The sandbox of `bwrap` (bubblewrap), on Linux: namespaces and mounts of its own for each command.
 *
 * `BwrapArguments` says what a command sees. Before a command begins, what is mounted is compared with what was meant:
 * a parallel command may rename folders meanwhile. When the host dies, the kernel ends the command and all it started.
 */
import * as Config from "effect/Config"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as NodeFs from "node:fs"
import NodeProcess from "node:process"
import type { Duplex } from "node:stream"
import * as ProcessGroup from "../command/ProcessGroup.ts"
import * as HttpExchange from "../fetch/HttpExchange.ts"
import * as PublicAddress from "../fetch/PublicAddress.ts"
import type * as GuardedFiles from "../files/GuardedFiles.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as BwrapArguments from "./BwrapArguments.ts"
import * as HiddenFiles from "./HiddenFiles.ts"
import * as Sandbox from "./Sandbox.ts"
import * as SandboxBridge from "./SandboxBridge.ts"
import * as SandboxFolder from "./SandboxFolder.ts"
import * as SandboxProbe from "./SandboxProbe.ts"
import * as SandboxProxy from "./SandboxProxy.ts"
import * as SandboxSystem from "./SandboxSystem.ts"
import * as Seccomp from "./Seccomp.ts"

/** What commands see and reach. */
export interface Options extends Sandbox.Mode {
  /** Hosts that commands can reach if a call requests it. Default: none, and no call can request any. */
  readonly network?: Network | undefined
  /** Path of `bwrap`. Default: that of `PATH`. */
  readonly program?: string | undefined
}

/** Hosts that commands can reach. */
export interface Network {
  /** Hosts that need no approval, such as `registry.npmjs.org` or `*.example.com`. Default: none. */
  readonly allow?: ReadonlyArray<string> | undefined
  /** Whether approval of other hosts is requested, one by one. Default true; otherwise they are refused. */
  readonly ask?: boolean | undefined
  /** Private hosts that may be reached, as in `FetchTools`. Default: none. */
  readonly allowPrivate?: ReadonlyArray<string> | undefined
  /** Gives the addresses of a name. Default: the operating system does. */
  readonly lookup?: HttpExchange.Lookup | undefined
}

/** What a driver needs to know of the user, from the environment. */
export interface User {
  readonly home: string | undefined
  readonly path: string | undefined
}

/** The most mounts of one command: each costs time, and what is beyond is an error rather than unprotected. */
const maxMounts = 400

/** How long making a sandbox may take. */
const patience = Duration.seconds(10)

/** How often a sandbox is made anew because a parallel command has changed folders. */
const maxTries = 3

/** The descriptors of `bwrap`: its arguments, its report, the gate of the command, and the filter of system calls. */
const [argumentsAt, statusAt, gateAt, filterAt] = [3, 4, 5, 6]

/**
 * What the command begins with: it says that the sandbox is complete and waits until it has been looked at. Nothing of
 * ours stays open in the command.
 */
const opening = `printf '\\n' >&${gateAt} && IFS= read -r go <&${gateAt} || exit 126; ` +
  `exec ${[argumentsAt, statusAt, gateAt, filterAt].map((it) => `${it}<&-`).join(" ")}; exec "$@"`

/** Probes the sandbox and gives it, or what is instead of it. */
export const make = Effect.fnUntraced(function*(
  options: Options,
  user: User
): Effect.fn.Return<Sandbox.Sandbox["Service"]> {
  if (options.mode === "off") return Sandbox.off
  if (NodeProcess.platform !== "linux") return Sandbox.unavailable("bwrap", "bwrap exists on Linux only", options)
  const program = options.program ?? SandboxSystem.programIn(user.path, "bwrap")
  if (program === undefined) {
    const reason = SandboxProbe.unavailableBecause({ apparmor: false, code: "ENOENT", errors: "" })
    return Sandbox.unavailable("bwrap", reason, options)
  }
  const network = options.network === undefined ? undefined : readNetwork(options.network)
  if (network !== undefined && Result.isFailure(network)) {
    return Sandbox.unavailable("bwrap", network.failure, { mode: "required" })
  }
  const wide = SandboxSystem.tooWide(options, user.home)
  if (wide !== undefined) return Sandbox.unavailable("bwrap", wide, { mode: "required" })
  const filter = Seccomp.filter(NodeProcess.arch)
  const driver: Driver = {
    program,
    filter,
    home: user.home,
    hasSecrets: HiddenFiles.of(options.hidden),
    system: SandboxSystem.system(),
    readable: [...SandboxSystem.tools(user.path, user.home), ...SandboxSystem.realOf(options.readable)],
    writable: SandboxSystem.realOf(options.writable),
    network: network?.success
  }
  return yield* SandboxProbe.probed("bwrap", options, {
    ...driver,
    start: (command) => start(driver, command)
  })
})

/**
 * Layer with the sandbox of `bwrap`, probed when the layer is built. Linux with the package `bubblewrap`.
 *
 * **Example** (Commands that change a folder and nothing else)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { LocalExecutor } from "effect-tool-executor"
 * import { Sandbox, WorkspaceTools } from "effect-tool-executor/tools"
 *
 * export const executor = Layer.unwrap(Effect.gen(function*() {
 *   const sandbox = yield* Sandbox.Sandbox
 *   const { layer, toolkit } = WorkspaceTools.make({ root: ".", sandbox })
 *   return LocalExecutor.layer(toolkit, { policy: { sandboxed: "allow" } }).pipe(Layer.provide(layer))
 * })).pipe(Layer.provide(Sandbox.layerBwrap({ mode: "required" })))
 * ```
 */
export const layerBwrap = (options: Options = {}): Layer.Layer<Sandbox.Sandbox> =>
  Layer.effect(Sandbox.Sandbox, Effect.flatMap(user, (user) => make(options, user)))

const variable = (name: string) =>
  Effect.map(
    Effect.orElseSucceed(Config.option(Config.NonEmptyString(name)), Option.none<string>),
    Option.getOrUndefined
  )

/** The user, from the environment. */
export const user: Effect.Effect<User> = Effect.all({ home: variable("HOME"), path: variable("PATH") })

interface Driver {
  readonly program: string
  readonly filter: Uint8Array | undefined
  readonly home: string | undefined
  readonly hasSecrets: (path: string) => boolean
  readonly system: ReadonlyArray<BwrapArguments.SystemPath>
  readonly readable: ReadonlyArray<string>
  readonly writable: ReadonlyArray<string>
  readonly network: Listed | undefined
}

/** A checked `Network`. */
type Listed = Omit<SandboxProxy.Options, "mayReach"> & { readonly ask: boolean }

const readNetwork = (network: Network): Result.Result<Listed, string> => {
  const { allow = [], allowPrivate = [], ask = true, lookup = HttpExchange.systemLookup } = network
  const reach = PublicAddress.reach(allowPrivate)
  const hosts = allow.map(SandboxProxy.readHost)
  const wrong = hosts.findIndex(Result.isFailure)
  if (wrong !== -1) {
    return Result.fail(`network.allow[${wrong}] is ${JSON.stringify(allow[wrong])}, which is not a host`)
  }
  if (Result.isFailure(reach)) return Result.fail(`${reach.failure[0]?.path}: ${reach.failure[0]?.problem}`)
  return Result.succeed({
    allow: hosts.flatMap((it) => it._tag === "Success" ? [it.success] : []),
    ask,
    lookup,
    reach: reach.success
  })
}

const start = (
  driver: Driver,
  command: Sandbox.Command
): Effect.Effect<Sandbox.Running, WorkspaceFailure.WorkspaceFailure, Scope.Scope> =>
  inOwnScope(Effect.gen(function*() {
    const found = yield* SandboxFolder.find(command, driver)
    const state = { hasBegun: false }
    const finish = yield* SandboxFolder.finishing(SandboxFolder.setAside(command, found), state)
    const { network } = driver
    if (network === undefined || command.network !== true) {
      return { ...yield* launch(driver, command, confinementOf(driver, command, found), state), finish }
    }
    const { mayReach } = command
    const proxy = yield* SandboxProxy.make({
      ...network,
      mayReach: mayReach !== undefined && network.ask ? mayReach : () => Effect.succeed(false)
    })
    const reaching = {
      ...command,
      argv: SandboxBridge.around(command.argv),
      environment: { ...command.environment, ...SandboxBridge.environment }
    }
    const launched = yield* launch(driver, reaching, confinementOf(driver, reaching, found, proxy.socket), state)
    const refused = Effect.sync((): Sandbox.Finished => {
      const refusedHosts = proxy.refused()
      return refusedHosts.length === 0 ? {} : { refusedHosts }
    })
    return { ...launched, finish: Effect.flatMap(finish, (it) => Effect.map(refused, (more) => ({ ...it, ...more }))) }
  })).pipe(Effect.retry({
    times: maxTries - 1,
    while: (failure) => failure.error === "ChangedMeanwhile"
  }))

/** What is left of an attempt that has failed is ended before the next one. */
const inOwnScope = <A, E>(effect: Effect.Effect<A, E, Scope.Scope>): Effect.Effect<A, E, Scope.Scope> =>
  Effect.flatMap(
    Effect.scope,
    (outer) =>
      Effect.flatMap(Scope.fork(outer), (scope) =>
        Effect.onError(Scope.provide(effect, scope), (cause) => Scope.close(scope, Exit.failCause(cause))))
  )

const confinementOf = (
  driver: Driver,
  { cwd, environment, workspace }: Sandbox.Command,
  { gitFolder, guarded, hidden, linked }: GuardedFiles.GuardedFiles,
  proxy?: string
): BwrapArguments.Confinement => {
  const writable = [...workspace === undefined ? [] : [workspace.root], ...driver.writable]
  const isWritable = (path: string): boolean => writable.some((it) => Workspace.isWithin(it, path))
  return {
    system: driver.system,
    readable: Array.from(new Set([...driver.readable, ...gitFolder === undefined ? [] : [gitFolder]]))
      .filter((path) => !isWritable(path)),
    writable,
    guarded: Array.from(new Set([...guarded, ...linked])).filter((it) => !hidden.includes(it)),
    hidden,
    proxy,
    home: driver.home,
    cwd,
    environment: {
      ...environment,
      ...driver.home === undefined ? {} : { HOME: driver.home },
      TMPDIR: "/tmp",
      // it could only fail to write
      GIT_OPTIONAL_LOCKS: "0"
    },
    seccomp: driver.filter === undefined ? undefined : filterAt,
    status: statusAt
  }
}

/** Starts `bwrap`, checks what it has made, and lets the command begin. */
const launch = Effect.fnUntraced(function*(
  driver: Driver,
  command: Sandbox.Command,
  confinement: BwrapArguments.Confinement,
  state: { hasBegun: boolean }
): Effect.fn.Return<ProcessGroup.ProcessGroup, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  const mounts = confinement.guarded.length + confinement.hidden.length + BwrapArguments.pinsOf(confinement).length
  if (mounts > maxMounts) {
    return yield* SandboxFolder.failed(
      `There are ${mounts} files and folders to protect, and there may be ${maxMounts}`
    )
  }
  let errors = ""
  const group = yield* ProcessGroup.make({
    ...command,
    argv: [
      driver.program,
      "--args",
      String(argumentsAt),
      "--",
      "/bin/sh",
      "-c",
      opening,
      "sh",
      ...command.argv
    ],
    cwd: "/",
    environment: {},
    channels: driver.filter === undefined ? 3 : 4,
    isSupervisor: true,
    onOutput: (stream, chunk, of) => {
      if (state.hasBegun) return command.onOutput(stream, chunk, of)
      errors += chunk.toString()
    }
  })
  const [args, status, gate, filter] = group.channels as [Duplex, Duplex, Duplex, Duplex | undefined]
  args.end(BwrapArguments.make(confinement).map((it) => `${it}\0`).join(""))
  filter?.end(driver.filter)
  const child = Deferred.makeUnsafe<number>()
  let report = ""
  status.on("data", (chunk: Buffer) => {
    report += chunk.toString()
    const [, pid] = /"child-pid":\s*(\d+)/.exec(report) ?? []
    if (pid !== undefined) Deferred.doneUnsafe(child, Effect.succeed(Number(pid)))
  })
  const complete = Effect.callback<void>((resume) => void gate.once("data", () => resume(Effect.void)))
  const ready = yield* Effect.raceFirst(
    Effect.timeoutOption(Effect.andThen(complete, Deferred.await(child)), patience),
    Effect.as(Effect.tap(group.exited, () => Effect.timeoutOption(group.closed, "1 second")), "ended" as const)
  )
  if (ready === "ended") return yield* SandboxFolder.failed(errors.trim() === "" ? "bwrap ended" : errors.trim())
  if (ready._tag === "None") return yield* SandboxFolder.failed("bwrap did not answer in time")
  const mountinfo = Result.getOrElse(
    Result.try(() => NodeFs.readFileSync(`/proc/${ready.value}/mountinfo`, "utf8")),
    () => ""
  )
  const wrong = BwrapArguments.wrongMount(confinement, mountinfo)
  if (wrong !== undefined) {
    return yield* Effect.fail(WorkspaceFailure.make(
      "ChangedMeanwhile",
      wrong,
      "The folder changed while the sandbox was being made, so the command was not started. Run it again."
    ))
  }
  state.hasBegun = true
  gate.end("go\n")
  return group
})
