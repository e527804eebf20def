/**
 * The arguments of `bwrap` for one command. Pure.
 *
 * The command begins with nothing: an empty root in memory, without network, processes and devices of the machine.
 * What it needs is added: programs and libraries, read-only; the folders that it may change; nothing of the home
 * folder.
 */
import * as NodePath from "node:path"
import { isWithin } from "../workspace/Workspace.ts"

/** A folder of the system as it is on this machine. */
export interface SystemPath {
  readonly path: string
  /** What it is a link to. */
  readonly link?: string | undefined
}

/** What a command is confined to. All paths are real. */
export interface Confinement {
  /** Folders and files with programs and their settings, read-only. */
  readonly system: ReadonlyArray<SystemPath>
  /** Further folders that are visible and cannot be changed. */
  readonly readable: ReadonlyArray<string>
  /** Folders that can be changed. */
  readonly writable: ReadonlyArray<string>
  /** What lies in them and cannot be changed. */
  readonly guarded: ReadonlyArray<string>
  /** What lies in them and is hidden: sockets and devices. */
  readonly hidden: ReadonlyArray<string>
  /** Where the home folder would be; it is empty. */
  readonly home: string | undefined
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  /** A socket of the host that leads to its proxy, visible as `proxySocket`. */
  readonly proxy?: string | undefined
  /** The descriptor with the filter of system calls. */
  readonly seccomp?: number | undefined
  /** The descriptor that `bwrap` reports to. */
  readonly status: number
}

/** Where a command finds the socket of the proxy. */
export const proxySocket = "/run/tool-executor/proxy.sock"

/** What `bwrap` gets as `--args`; the command follows elsewhere. */
export const make = (it: Confinement): ReadonlyArray<string> => [
  "--unshare-user",
  "--unshare-all",
  "--disable-userns",
  "--die-with-parent",
  "--new-session",
  "--cap-drop",
  "ALL",
  "--hostname",
  "sandbox",
  ...it.system.flatMap(({ link, path }) => link === undefined ? ["--ro-bind", path, path] : ["--symlink", link, path]),
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  ...["/var", "/run"].flatMap((path) => ["--tmpfs", path]),
  ...["/tmp", "/var/tmp"].flatMap((path) => ["--perms", "1777", "--tmpfs", path]),
  ...it.home === undefined || isCovered(it, it.home) ? [] : ["--tmpfs", it.home],
  ...byDepth([
    ...it.readable.map((path) => ({ path, how: "--ro-bind" })),
    ...it.writable.map((path) => ({ path, how: "--bind" })),
    // a folder that is mounted cannot be renamed, so what is guarded in it stays where it is
    ...pinsOf(it).map((path) => ({ path, how: "--bind" })),
    ...it.guarded.map((path) => ({ path, how: "--ro-bind" }))
  ]).flatMap(({ how, path }) => [how, path, path]),
  ...it.hidden.flatMap((path) => ["--ro-bind", "/dev/null", path]),
  ...it.proxy === undefined ? [] : ["--ro-bind", it.proxy, proxySocket],
  // root of the machine may write some of it, whatever its capabilities
  "--remount-ro",
  "/proc",
  "--remount-ro",
  "/",
  "--clearenv",
  ...Object.entries(it.environment).flatMap(([name, value]) => ["--setenv", name, value]),
  "--chdir",
  it.cwd,
  ...it.seccomp === undefined ? [] : ["--seccomp", String(it.seccomp)],
  "--json-status-fd",
  String(it.status)
]

/** Folders between a writable one and what is guarded or hidden in it. */
export const pinsOf = ({ guarded, hidden, writable }: Confinement): ReadonlyArray<string> => {
  const pins = new Set<string>()
  for (const path of [...guarded, ...hidden]) {
    const top = writable.find((it) => isWithin(it, path))
    if (top === undefined) continue
    for (let folder = NodePath.dirname(path); folder.length > top.length; folder = NodePath.dirname(folder)) {
      if (guarded.some((it) => isWithin(it, folder))) continue
      pins.add(folder)
    }
  }
  return Array.from(pins)
}

/** Whether it would cover something of the system. */
const isCovered = ({ system }: Confinement, path: string): boolean =>
  path === "/" || ["/proc", "/dev", "/tmp", "/var", "/run"].includes(path) ||
  system.some((it) => isWithin(path, it.path) || isWithin(it.path, path))

/** What lies higher is mounted first: it would cover the rest. Of equal paths the last is mounted last. */
const byDepth = <A extends { readonly path: string }>(mounts: ReadonlyArray<A>): ReadonlyArray<A> =>
  mounts.toSorted((a, b) => depth(a.path) - depth(b.path))

const depth = (path: string): number => path === "/" ? 0 : path.split("/").length

/** A mount as the kernel lists it. */
interface Mount {
  readonly device: string
  /** Which folder or file of the device it is. */
  readonly from: string
  readonly isReadOnly: boolean
}

/**
 * Compares what is mounted (the text of `/proc/PID/mountinfo`) with what was meant; gives the first path that is
 * something else. A parallel command may have renamed folders while the sandbox was being made.
 */
export const wrongMount = (confinement: Confinement, mountinfo: string): string | undefined => {
  const mounts = new Map<string, Mount>()
  for (const line of mountinfo.split("\n")) {
    const [, , device, from, at, options] = line.split(" ")
    if (device === undefined || from === undefined || at === undefined || options === undefined) continue
    mounts.set(plain(at), { device, from: plain(from), isReadOnly: options.split(",").includes("ro") })
  }
  const isRight = (path: string, isReadOnly: boolean): boolean => {
    const mount = mounts.get(path)
    const top = confinement.writable.find((it) => isWithin(it, path))
    const above = top === undefined ? undefined : mounts.get(top)
    if (mount === undefined || above === undefined || (isReadOnly && !mount.isReadOnly)) return false
    const expected = NodePath.posix.join(above.from, NodePath.posix.relative(top!, path))
    return mount.device === above.device && mount.from === expected
  }
  return confinement.guarded.find((path) => !isRight(path, true)) ??
    pinsOf(confinement).find((path) => !isRight(path, false)) ??
    confinement.hidden.find((path) => mounts.get(path)?.from.endsWith("/null") !== true)
}

/** Without the escapes of spaces, tabs, line ends and backslashes. */
const plain = (text: string): string =>
  text.includes("\\") ? Buffer.from(unescaped(text), "latin1").toString("utf8") : text

const unescaped = (text: string): string =>
  Buffer.from(text, "utf8").toString("latin1").replaceAll(
    /\\([0-7]{3})/g,
    (_, code: string) => String.fromCharCode(Number.parseInt(code, 8))
  )
