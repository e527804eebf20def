/** What of a machine commands need to see: programs, libraries, a few settings, and the tools of the user. */
import * as Result from "effect/Result"
import * as NodeFs from "node:fs"
import * as NodePath from "node:path"
import NodeProcess from "node:process"
import { isWithin } from "../workspace/Workspace.ts"
import type { SystemPath } from "./BwrapArguments.ts"

const ofLinux = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"]

const ofMacos = [
  "/bin",
  "/dev",
  "/Library",
  "/opt/homebrew",
  "/private/var/db",
  "/private/var/select",
  "/sbin",
  "/System",
  "/usr"
]

const folders = NodeProcess.platform === "darwin" ? ofMacos : ofLinux

/** Settings that programs need and that hold no secret. */
const settings = [
  "alternatives",
  "bash.bashrc",
  "ca-certificates",
  "ca-certificates.conf",
  "crypto-policies",
  "debian_version",
  "fonts",
  "group",
  "hosts",
  "inputrc",
  "java",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "locale.alias",
  "locale.conf",
  "localtime",
  "lsb-release",
  "magic",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "passwd",
  "perl",
  "pki",
  "profile",
  "protocols",
  "python3",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf",
  "terminfo",
  "timezone"
].map((name) => `/etc/${name}`)

/** Gives what there is of it on this machine. */
export const system = (): ReadonlyArray<SystemPath> =>
  [...folders, ...settings].flatMap((path): ReadonlyArray<SystemPath> => {
    const stats = attempt(() => NodeFs.lstatSync(path))
    if (stats === undefined) return []
    const isTop = folders.includes(path)
    if (isTop && stats.isSymbolicLink()) return [{ path, link: NodeFs.readlinkSync(path) }]
    return attempt(() => NodeFs.realpathSync(path)) === undefined ? [] : [{ path }]
  })

/** Folders of a home folder that hold credentials, or settings that do. */
const secret = [
  ".ssh",
  ".gnupg",
  ".aws",
  ".azure",
  ".config",
  ".docker",
  ".kube",
  ".netrc",
  ".npmrc",
  ".pypirc",
  ".git-credentials",
  ".mozilla",
  ".password-store"
]

/**
 * Gives the tools of the user that lie elsewhere: the folders of `PATH`, with the rest of an installation where one of
 * them is its `bin`, the Node that runs this, and what npm has downloaded before. Never a folder with credentials, nor
 * one that such a folder lies in.
 */
export const tools = (path: string | undefined, home: string | undefined): ReadonlyArray<string> => {
  const seen = system().filter(({ link }) => link === undefined).map((it) => it.path)
  const found = new Set<string>()
  const add = (candidate: string): void => {
    const real = attempt(() => NodeFs.realpathSync(candidate))
    if (real === undefined || real === "/" || seen.some((it) => isWithin(it, real))) return
    if (home !== undefined && isPrivate(real, home)) return
    for (const it of new Set([real, NodePath.resolve(candidate)])) found.add(it)
  }
  for (const entry of [...(path ?? "").split(":"), NodePath.dirname(NodeProcess.execPath)]) {
    if (!NodePath.isAbsolute(entry)) continue
    add(entry)
    const real = attempt(() => NodeFs.realpathSync(entry))
    if (real === undefined) continue
    const above = NodePath.dirname(real)
    const isInstallation = NodePath.basename(real) === "bin" && !NodePath.basename(above).startsWith(".") &&
      NodeFs.existsSync(NodePath.join(above, "lib"))
    if (isInstallation) add(above)
  }
  if (home !== undefined) {
    for (const part of ["content-v2", "index-v5"]) add(NodePath.join(home, ".npm", "_cacache", part))
  }
  return Array.from(found)
}

/** Whether it is the home folder, holds it, or holds or lies in something secret in it. */
const isPrivate = (path: string, home: string): boolean =>
  isWithin(path, home) ||
  secret.some((name) => {
    const it = NodePath.join(home, name)
    return isWithin(it, path) || isWithin(path, it)
  })

/** Whether Ubuntu's restriction of user namespaces is on. */
export const isRestrictedByAppArmor = (): boolean =>
  attempt(() => NodeFs.readFileSync("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "utf8").trim()) === "1"

/** The namespaces of this process. */
export const namespaces = (): { readonly pid: string; readonly net: string } => {
  const of = (name: string) => attempt(() => NodeFs.readlinkSync(`/proc/self/ns/${name}`)) ?? ""
  return { pid: of("pid"), net: of("net") }
}

const attempt = <A>(run: () => A): A | undefined => Result.getOrUndefined(Result.try(run))

/** The real paths of what exists of these. */
export const realOf = (paths: ReadonlyArray<string> = []): ReadonlyArray<string> =>
  paths.flatMap((path) => {
    const real = attempt(() => NodeFs.realpathSync(NodePath.resolve(path)))
    return real === undefined ? [] : [real]
  })

/** Says which of these folders would show everything, because it is the home folder or contains it. */
export const tooWide = (
  { readable = [], writable = [] }: {
    readonly readable?: ReadonlyArray<string> | undefined
    readonly writable?: ReadonlyArray<string> | undefined
  },
  home: string | undefined
): string | undefined => {
  const homes = ["/root", ...realOf(home === undefined ? [] : [home])]
  const wide = [...readable, ...writable].find((it) =>
    realOf([it]).some((real) => homes.some((home) => isWithin(real, home)))
  )
  return wide === undefined
    ? undefined
    : `${JSON.stringify(wide)} contains the home folder. Name the folders in it that commands need`
}

/** Where a program is installed. Not in a folder that is relative to where this process happens to run. */
export const programIn = (path: string | undefined, name: string): string | undefined =>
  [...(path ?? "").split(":"), "/usr/bin", "/usr/local/bin"]
    .filter((folder) => NodePath.isAbsolute(folder))
    .map((folder) => NodePath.join(folder, name))
    .find((it) => NodeFs.existsSync(it))
