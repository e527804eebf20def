/**
 * Runs the command line in a process of its own, as people do.
 */
import { spawn as spawnTerminal } from "@lydell/node-pty"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { program } from "../support/programs.ts"

const bin = program("src/cli/bin.ts")

/** The command from its sources, for a Node with flags of its own: as if it had no such package, for example. */
const source = fileURLToPath(new URL("../../src/cli/bin.ts", import.meta.url))

export interface Options {
  readonly stdin?: string
  /** Flags of Node's own. */
  readonly node?: ReadonlyArray<string>
  /** Variables of the environment; `undefined`: it has no such variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Called with all of each output whenever there is more of it. */
  readonly onOutput?: (so: { readonly stdout: string; readonly stderr: string }, child: Child) => void
}

export interface Child {
  readonly signal: (name: "SIGINT" | "SIGTERM" | "SIGKILL") => void
  readonly closeStdout: () => void
}

export const run = (args: ReadonlyArray<string>, options: Options = {}) =>
  Effect.callback<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>((resume) => {
    const child = spawn(process.execPath, [...options.node === undefined ? bin : [...options.node, source], ...args], {
      stdio: "pipe",
      // whoever runs the tests at a terminal is not asked
      detached: true,
      env: { ...process.env, NO_COLOR: undefined, ...options.env }
    })
    const written = { stdout: "", stderr: "" }
    const handle: Child = { signal: (name) => child.kill(name), closeStdout: () => child.stdout.destroy() }
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        written[name] += text
        options.onOutput?.(written, handle)
      })
    }
    child.on("close", (code) => resume(Effect.succeed({ code, ...written })))
    child.stdin.on("error", () => undefined).end(options.stdin ?? "")
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** Runs it at a terminal of its own; `type` is typed when the prompt of an approval request is shown, once for each. */
export const runAtTerminal = (
  args: ReadonlyArray<string>,
  { env, type }: { readonly env: Options["env"]; readonly type: ReadonlyArray<string> }
) =>
  Effect.callback<{ readonly code: number; readonly screen: string }>((resume) => {
    const terminal = spawnTerminal(process.execPath, [...bin, ...args], {
      cols: 120,
      rows: 40,
      env: { ...process.env, NO_COLOR: "1", TERM: "xterm", ...env }
    })
    let screen = ""
    let asked = 0
    terminal.onData((text) => {
      screen += text
      while (screen.split("[v] view all ").length - 1 > asked) terminal.write(type[asked++] ?? "")
    })
    terminal.onExit(({ exitCode }) => resume(Effect.succeed({ code: exitCode, screen })))
    return Effect.sync(() => terminal.kill("SIGKILL"))
  })

/** Does something once, the first time it is true. */
export const once = (
  when: (so: { readonly stdout: string; readonly stderr: string }) => boolean,
  act: (child: Child) => void
) => {
  let done = false
  return (so: { readonly stdout: string; readonly stderr: string }, child: Child) => {
    if (done || !when(so)) return
    done = true
    act(child)
  }
}

/** Flags of Node's own, for a process that has no such package: as if it had been asked for from where there is none. */
export const without = (name: string): ReadonlyArray<string> => {
  const hook = `import { registerHooks } from "node:module"
    registerHooks({ resolve: (specifier, context, next) =>
      specifier === "${name}" || specifier.startsWith("${name}/")
        ? next(specifier, { ...context, parentURL: "file:///nowhere/x.js" })
        : next(specifier, context) })`
  return ["--import", `data:text/javascript,${encodeURIComponent(hook)}`]
}
