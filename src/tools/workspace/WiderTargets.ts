/**
 * Patterns between one target and everything, for lasting approvals: the folders of a path, the domain of a host, the
 * beginnings of a command. The narrowest come first.
 *
 * A text with a wildcard in it has none: as a pattern it would mean more than it says.
 */

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
 * neither has a name below a suffix under which anybody may have a name.
 */
export const domains = (host: string): ReadonlyArray<string> => {
  const [name = "", port] = host.split(":")
  const labels = name.split(".")
  const domain = labels.slice(1)
  if (!/^[a-z0-9_.-]+$/.test(name) || /^\d+$/.test(labels.at(-1)!) || domain.length < 2) return []
  const [last, second] = [domain.at(-1)!, domain.at(-2)!]
  const isPublic = domain.length === 2 && (last.length === 2 && (second.length <= 3 || secondLevels.has(second)))
  const isShared = shared.some((it) => domain.join(".") === it || `.${domain.join(".")}`.endsWith(`.${it}`))
  return isPublic || isShared ? [] : [`*.${domain.join(".")}${port === undefined ? "" : `:${port}`}`]
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

/** Second levels of countries that anybody may register a name under. */
const secondLevels = new Set(["gouv", "info", "asso", "firm", "name", "blog"])

/** Domains of hosts that give a name to anybody. */
const shared = [
  "amazonaws.com",
  "appspot.com",
  "azurewebsites.net",
  "blogspot.com",
  "cloudfront.net",
  "cloudfunctions.net",
  "fastly.net",
  "firebaseapp.com",
  "fly.dev",
  "github.io",
  "githubusercontent.com",
  "gitlab.io",
  "glitch.me",
  "googleapis.com",
  "googleusercontent.com",
  "herokuapp.com",
  "netlify.app",
  "ngrok.app",
  "ngrok.io",
  "ngrok-free.app",
  "onrender.com",
  "pages.dev",
  "r2.dev",
  "readthedocs.io",
  "repl.co",
  "replit.app",
  "run.app",
  "supabase.co",
  "surge.sh",
  "trycloudflare.com",
  "tumblr.com",
  "vercel.app",
  "web.app",
  "windows.net",
  "wordpress.com",
  "workers.dev"
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
