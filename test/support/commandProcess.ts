/** `tool-executor` as a process of its own. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { program } from "./programs.ts"

export const until = (condition: () => boolean) =>
  Effect.repeat(Effect.sync(condition), { until: (it) => it, schedule: Schedule.spaced("20 millis") })

/** Starts it for the rest of the scope. */
export const start = (args: ReadonlyArray<string>, env: Readonly<Record<string, string | undefined>> = {}) =>
  Effect.gen(function*() {
    const written = { stdout: "", stderr: "" }
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [...program("src/cli/bin.ts"), ...args], {
          stdio: "pipe",
          env: { ...process.env, ...env }
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => written[name] += text)
    }
    child.stdin.on("error", () => undefined)
    let code: number | null | undefined
    child.once("close", (it) => code = it)
    const hasEnded = () => code !== undefined
    return { child, written, hasEnded, ended: Effect.map(until(hasEnded), () => code) }
  })
