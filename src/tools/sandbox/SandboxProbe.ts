/** Tries what must not work in a sandbox, and says what the attempts mean. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeFs from "node:fs"
import * as NodeNet from "node:net"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import NodeProcess from "node:process"
import { isWithin } from "../workspace/Workspace.ts"
import type * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import { all, type Command, type Held, type Mode, type Running, type Sandbox, unavailable } from "./Sandbox.ts"
import * as SandboxSystem from "./SandboxSystem.ts"

/** Without these a sandbox of `bwrap` does not hold. The filter of system calls comes on top. */
const allButFilter: ReadonlyArray<Held> = ["files", "home", "secrets", "network", "processes", "mounts", "privileges"]

/** A file of the workspace that a command may not read. */
const hiddenName = "hidden"

/** What the attempts are made on. */
export interface Subject {
  /** A file of the host, outside of every writable folder. */
  readonly outside: string
  /** A file that does not exist, among the settings of the machine. */
  readonly made: string
  readonly home: string | undefined
  /** Names in the home folder that commands may see, because tools of the user lie there. */
  readonly shown: ReadonlyArray<string>
  /** Namespaces of the host, as `/proc/self/ns` links to them. */
  readonly namespaces: { readonly pid: string; readonly net: string }
  /** On macOS, which has none: a process of the host, and a port on 127.0.0.1 where it listens. */
  readonly macos?: { readonly pid: number; readonly port: number } | undefined
}

/**
 * The script. Each line of its output names an attempt and says `no` where it did not succeed. An attempt whose line is
 * missing counts as successful.
 */
export const script = ({ home, macos, made, namespaces, outside, shown }: Subject): string => {
  const others = ["", ...shown].map((name) => `-e ${quoted(name)}`).join(" ")
  const attempts: Record<Held, string> = {
    files: `{ cat ${quoted(outside)} || echo x > /usr/.probe || [ -w /proc/sys/kernel/core_pattern ]; } 2>/dev/null`,
    home: home === undefined ? "false" : `ls -A ${quoted(home)} 2>/dev/null | grep -v -x -F ${others}`,
    secrets: `cat ${hiddenName} 2>/dev/null`,
    network: `[ "$(readlink /proc/self/ns/net)" = ${
      quoted(namespaces.net)
    } ] || grep -v -e '|' -e ' lo:' /proc/net/dev`,
    processes: `[ "$(readlink /proc/self/ns/pid)" = ${quoted(namespaces.pid)} ] || [ "$(cat /proc/1/comm)" = systemd ]`,
    mounts: "{ unshare -Urm true || mount -t tmpfs none /tmp; } 2>/dev/null",
    privileges:
      `grep -q -E '^(CapEff|CapBnd):.*[1-9a-f]' /proc/self/status || grep -q '^NoNewPrivs:.*0' /proc/self/status`,
    syscalls: "grep -q '^Seccomp:.*[01]' /proc/self/status",
    ...macos === undefined ? {} : {
      network: `/usr/bin/nc -z -w 2 127.0.0.1 ${macos.port} 2>/dev/null`,
      processes: `kill -0 ${macos.pid} 2>/dev/null`,
      // nothing there proves these
      mounts: "true",
      privileges: "true",
      syscalls: "true"
    }
  }
  // whether these reach the machine is seen from outside
  const changes = [outside, made].map((path) => `echo x > ${quoted(path)}`)
  const tries = all.map((held) => `if ${attempts[held]}; then echo '${held}=yes'; else echo '${held}=no'; fi`)
  return [...tries, ...changes].join("\n")
}

/** What the output of the script means: what holds, or why the sandbox does not. */
export const verdict = (
  output: string,
  needed: ReadonlyArray<Held> = allButFilter
): Result.Result<{ readonly holds: ReadonlyArray<Held>; readonly missing: ReadonlyArray<Held> }, string> => {
  const lines = new Set(output.split("\n").map((line) => line.trim()))
  const isHeld = (held: Held): boolean => lines.has(`${held}=no`) && !lines.has(`${held}=yes`)
  const broken = needed.filter((held) => !isHeld(held))
  return broken.length === 0
    ? Result.succeed({ holds: all.filter(isHeld), missing: all.filter((held) => !isHeld(held)) })
    : Result.fail(`the probe got through: ${broken.map((held) => attempted[held]).join("; ")}`)
}

/** Why a sandbox could not be made, in one line, from what its program wrote and how the system is set. */
export const unavailableBecause = (
  { apparmor, code, errors }: {
    /** Whether `kernel.apparmor_restrict_unprivileged_userns` is on. */
    readonly apparmor: boolean
    readonly code: string
    readonly errors: string
  }
): string => {
  if (code === "ENOENT") return "bwrap is not installed (package bubblewrap)"
  const said = errors.trim().split("\n")[0]!.replace(/\.+$/, "")
  if (/uid map|new namespace|user namespace|clone|Operation not permitted|loopback/i.test(said)) {
    if (apparmor) {
      return "AppArmor keeps bwrap from making user namespaces (Ubuntu: give bwrap a profile with `userns`, or set " +
        `kernel.apparmor_restrict_unprivileged_userns to 0): ${said}`
    }
    return "the system does not let bwrap make user namespaces (see kernel.unprivileged_userns_clone and " +
      `user.max_user_namespaces; in a container, its seccomp profile and its masked /proc): ${said}`
  }
  return said === "" ? `bwrap failed (${code})` : said
}

const attempted: Record<Held, string> = {
  files: "a file outside of the workspace could be read or changed",
  home: "the home folder can be seen",
  secrets: "a hidden file of the workspace can be read",
  network: "the network can be reached",
  processes: "processes of the machine can be seen",
  mounts: "a further namespace could be made",
  privileges: "capabilities are left",
  syscalls: "there is no filter of system calls"
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** A listener of the host; gives its port. */
const listening = Effect.map(
  Effect.acquireRelease(
    Effect.callback<NodeNet.Server>((resume) => {
      const server = NodeNet.createServer((connection) => void connection.destroy())
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => void server.close())
  ),
  (server) => (server.address() as NodeNet.AddressInfo).port
)

/** How long making a sandbox may take. */
const patience = Duration.seconds(10)

/** What is probed. */
export interface Probed {
  readonly home: string | undefined
  /** Without these the sandbox does not hold. Default: all but the filter of system calls. */
  readonly needed?: ReadonlyArray<Held> | undefined
  /** What commands see. */
  readonly readable: ReadonlyArray<string>
  readonly writable: ReadonlyArray<string>
  readonly start: (command: Command) => Effect.Effect<Running, WorkspaceFailure.WorkspaceFailure, Scope.Scope>
}

/** The sandbox of a driver, or what is instead of it if it does not hold. */
export const probed = (
  driver: string,
  options: Mode & { readonly network?: object | undefined },
  it: Probed
): Effect.Effect<Sandbox["Service"]> =>
  Effect.match(run(it), {
    onFailure: (reason) => unavailable(driver, reason, options),
    onSuccess: (found) => ({
      status: { _tag: "Holds", driver, network: options.network === undefined ? "none" : "listed", ...found },
      allowsUnconfined: options.unconfined ?? true,
      start: it.start
    })
  })

/** Tries what must not work, in a folder of its own. */
const run = Effect.fnUntraced(function*({ home, needed, readable, start, writable }: Probed) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => NodeFs.realpathSync(NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "sandbox-probe-")))),
    (folder) => Effect.sync(() => NodeFs.rmSync(folder, { recursive: true, force: true }))
  )
  const [root, outside] = [NodePath.join(folder, "root"), NodePath.join(folder, "outside")]
  const made = `/etc/.${NodePath.basename(folder)}`
  NodeFs.mkdirSync(root)
  NodeFs.writeFileSync(outside, "outside\n")
  NodeFs.writeFileSync(NodePath.join(root, hiddenName), "hidden\n")
  const macos = NodeProcess.platform === "darwin"
    ? { pid: NodeProcess.pid, port: yield* listening }
    : undefined
  let output = ""
  const names = [folder, ...readable, ...writable].flatMap((path) =>
    home !== undefined && isWithin(home, path) ? NodePath.relative(home, path).split("/").slice(0, 1) : []
  )
  const ended = yield* start({
    argv: [
      "/bin/sh",
      "-c",
      script({ home, macos, made, namespaces: SandboxSystem.namespaces(), outside, shown: names })
    ],
    cwd: root,
    environment: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    killGrace: Duration.zero,
    onOutput: (stream, chunk) => {
      if (stream === "stdout") output += chunk.toString()
    },
    workspace: { root, given: root },
    isHidden: (path) => path === hiddenName
  }).pipe(
    Effect.flatMap((running) => Effect.andThen(running.exited, running.closed)),
    Effect.timeoutOption(patience),
    Effect.exit
  )
  if (Exit.isFailure(ended)) {
    const failure = Result.getOrUndefined(Exit.findError(ended))
    const apparmor = SandboxSystem.isRestrictedByAppArmor()
    const errors = failure?.message.replace(/^[^:]*: (?:bwrap: )?/, "") ?? ""
    return yield* Effect.fail(unavailableBecause({ apparmor, code: failure?.error ?? "", errors }))
  }
  const isMade = NodeFs.existsSync(made)
  NodeFs.rmSync(made, { force: true })
  if (isMade || NodeFs.readFileSync(outside, "utf8") !== "outside\n") {
    return yield* Effect.fail("the probe got through: a file outside of the workspace was changed")
  }
  return yield* Effect.fromResult(verdict(output, needed))
}, Effect.scoped)
