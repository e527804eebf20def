/** Tries what must not work in a sandbox, and says what the attempts mean. */
import * as Result from "effect/Result"
import { all, type Held } from "./Sandbox.ts"

/** Without these a sandbox does not hold. The filter of system calls comes on top. */
const needed: ReadonlyArray<Held> = ["files", "home", "network", "processes", "mounts", "privileges"]

/** What the attempts are made on. */
export interface Subject {
  /** A file of the host, outside of every writable folder. */
  readonly outside: string
  readonly home: string | undefined
  /** Names in the home folder that commands may see, because tools of the user lie there. */
  readonly shown: ReadonlyArray<string>
  /** Namespaces of the host, as `/proc/self/ns` links to them. */
  readonly namespaces: { readonly pid: string; readonly net: string }
}

/**
 * The script. Each line of its output names an attempt and says `no` where it did not succeed. An attempt whose line is
 * missing counts as successful.
 */
export const script = ({ home, namespaces, outside, shown }: Subject): string => {
  const others = ["", ...shown].map((name) => `-e ${quoted(name)}`).join(" ")
  const attempts: Record<Held, string> = {
    files: `{ cat ${quoted(outside)} || echo x > /usr/.probe || echo x > /etc/.probe; } 2>/dev/null`,
    home: home === undefined ? "false" : `ls -A ${quoted(home)} 2>/dev/null | grep -v -x -F ${others}`,
    network: `[ "$(readlink /proc/self/ns/net)" = ${
      quoted(namespaces.net)
    } ] || grep -v -e '|' -e ' lo:' /proc/net/dev`,
    processes: `[ "$(readlink /proc/self/ns/pid)" = ${quoted(namespaces.pid)} ] || [ "$(cat /proc/1/comm)" = systemd ]`,
    mounts: "{ unshare -Urm true || mount -t tmpfs none /tmp; } 2>/dev/null",
    privileges:
      `grep -q -E '^(CapEff|CapBnd):.*[1-9a-f]' /proc/self/status || grep -q '^NoNewPrivs:.*0' /proc/self/status`,
    syscalls: "grep -q '^Seccomp:.*[01]' /proc/self/status"
  }
  // whether it reaches the file itself is seen from outside
  const change = `echo x > ${quoted(outside)}`
  const tries = all.map((held) => `if ${attempts[held]}; then echo '${held}=yes'; else echo '${held}=no'; fi`)
  return [...tries, change].join("\n")
}

/** What the output of the script means: what holds, or why the sandbox does not. */
export const verdict = (
  output: string
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
  const said = errors.trim().split("\n")[0] ?? ""
  if (/uid map|new namespace|user namespace|clone|Operation not permitted|loopback/i.test(said)) {
    if (apparmor) {
      return "AppArmor keeps bwrap from making user namespaces (Ubuntu: give bwrap a profile with `userns`, or set " +
        `kernel.apparmor_restrict_unprivileged_userns to 0): ${said}`
    }
    return "the system does not let bwrap make user namespaces (see kernel.unprivileged_userns_clone and " +
      `user.max_user_namespaces; in a container, its seccomp profile): ${said}`
  }
  return said === "" ? `bwrap failed (${code})` : said
}

const attempted: Record<Held, string> = {
  files: "a file outside of the workspace could be read or changed",
  home: "the home folder can be seen",
  network: "the network can be reached",
  processes: "processes of the machine can be seen",
  mounts: "a further namespace could be made",
  privileges: "capabilities are left",
  syscalls: "there is no filter of system calls"
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
