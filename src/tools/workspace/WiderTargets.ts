/**
 * Patterns between one target and everything, for lasting approvals: the folders of a path, the domain of a host, the
 * beginnings of a command. The narrowest come first.
 *
 * A text with a wildcard in it has none: as a pattern it would mean more than it says.
 */
import { getDomain } from "tldts"

/** Gives the folders of a path relative to the root. */
export const folders = (path: string): ReadonlyArray<string> => {
  if (path.startsWith("/") || path.split("/").slice(0, -1).some((it) => it === ".." || it === "")) return []
  const found: Array<string> = []
  // a pattern may have no wildcard but its own
  const wildcard = path.search(/[*?]/)
  let end = path.lastIndexOf("/", wildcard === -1 ? path.length : wildcard)
  for (; end !== -1 && found.length < 3; end = path.lastIndexOf("/", end - 1)) found.push(`${path.slice(0, end)}/*`)
  return found
}

/**
 * Gives the domain of a host with or without a port: `*.example.com` for `api.example.com`. An address has none, and
 * neither has a name below a suffix under which anybody may have a name: one of the Public Suffix List, or of a host
 * that is not in it.
 */
export const domains = (host: string): ReadonlyArray<string> => {
  const [name = "", port] = host.split(":")
  const domain = name.slice(name.indexOf(".") + 1)
  // longer ones are no names of hosts
  if (name.length > 253 || !/^[a-z0-9_-]+(?:\.[a-z0-9_-]+){2,}$/.test(name) || /\.\d+$/.test(name)) return []
  const isShared = getDomain(domain, { allowPrivateDomains: true, validateHostname: false }) === null ||
    shared.some((it) => domain === it || domain.endsWith(`.${it}`))
  return isShared ? [] : [`*.${domain}${port === undefined ? "" : `:${port}`}`]
}

/**
 * Gives the beginnings of a command by its plain words: `npm test *` for `npm test -- a.ts`. At least the program and
 * its subcommand; a program that runs what it is given has none.
 */
export const commands = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [program = "", subcommand = ""] = words
  if (!/^[a-z][a-z0-9._-]*$/i.test(program) || !/^[a-z][a-z0-9:_-]*$/i.test(subcommand)) return []
  if (runners.has(program.toLowerCase().replace(/[\d.]+$/, "")) || running.has(subcommand)) return []
  const whole = [words.slice(0, -1), words.slice(0, 2)].filter((it) => it.length >= 2).map((it) => `${it.join(" ")} *`)
  return Array.from(new Set(whole)).filter(hasOneWildcard)
}

const hasOneWildcard = (pattern: string): boolean => !/[*?]/.test(pattern.slice(0, -1))

/** Domains of hosts that give a name to anybody, and that are not in the Public Suffix List as a whole. */
const shared = [
  "amazonaws.com",
  "fastly.net",
  "github.dev",
  "glitch.me",
  "googleapis.com",
  "googleusercontent.com",
  "sharepoint.com",
  "tumblr.com",
  "windows.net",
  "wordpress.com"
]

/** Programs that run what their arguments say: no beginning of such a line says what runs. */
const runners = new Set([
  "awk",
  "bash",
  "bun",
  "bunx",
  "busybox",
  "chroot",
  "cmd",
  "command",
  "dash",
  "deno",
  "doas",
  "docker",
  "env",
  "eval",
  "exec",
  "find",
  "fish",
  "flock",
  "ionice",
  "ksh",
  "kubectl",
  "lua",
  "nice",
  "node",
  "nohup",
  "npx",
  "nsenter",
  "osascript",
  "perl",
  "php",
  "pipx",
  "pnpx",
  "podman",
  "powershell",
  "pwsh",
  "python",
  "rsync",
  "ruby",
  "script",
  "sed",
  "setsid",
  "sh",
  "ssh",
  "stdbuf",
  "strace",
  "su",
  "sudo",
  "systemd-run",
  "tar",
  "time",
  "timeout",
  "tsx",
  "uv",
  "uvx",
  "watch",
  "wsl",
  "xargs",
  "zsh"
])

/** Subcommands that run what comes after them. */
const running = new Set(["exec", "x", "dlx", "run-script", "shell", "sh", "config", "alias"])
