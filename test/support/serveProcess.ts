/** `tool-executor serve` as a process of its own, spoken to over HTTP. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import * as Tokens from "../../src/server/Tokens.ts"
import { program } from "./programs.ts"

export const until = (condition: () => boolean) =>
  Effect.repeat(Effect.sync(condition), { until: (it) => it, schedule: Schedule.spaced("20 millis") })

/** A user with every right, and their token. */
export const user = Effect.map(Tokens.make, (token) => ({
  token: Redacted.value(token),
  config: { tokens: [{ hash: Tokens.hash(token) }], run: true, approve: ["*"], records: ["*"], operate: true }
}))

export interface Json {
  readonly [key: string]: unknown
}

/** Starts the command for the rest of the scope. */
export const start = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function*() {
    const written = { stdout: "", stderr: "" }
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [...program("src/cli/bin.ts"), ...args], {
          stdio: "pipe",
          env: { ...process.env, NO_COLOR: undefined, ...env }
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => written[name] += text)
    }
    let code: number | null | undefined
    child.once("close", (it) => code = it)
    const ended = Effect.map(until(() => code !== undefined), () => code)
    /** Where it serves, as it says. */
    const url = Effect.suspend(() => {
      const said = () => /^Serving (\S+)$/m.exec(written.stdout)?.[1]
      return Effect.flatMap(
        until(() => said() !== undefined || code !== undefined),
        () =>
          said() === undefined
            ? Effect.die(new Error(`It ended with ${code}: ${written.stderr}`))
            : Effect.succeed(said()!)
      )
    })
    return { child, written, ended, url }
  })

/** A way to ask a server as somebody. */
export const asking = (url: string, token: string) => {
  const send = (path: string, init: RequestInit = {}) =>
    Effect.promise((signal) =>
      fetch(`${url}${path}`, {
        signal,
        ...init,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...init.headers }
      })
    )
  const json = (path: string, init?: RequestInit) =>
    Effect.flatMap(send(path, init), (response) => Effect.promise(() => response.json() as Promise<Json>))
  const post = (path: string, body: unknown) => json(path, { method: "POST", body: JSON.stringify(body) })
  return { send, json, post }
}

/** The approval requests that wait. */
export const openIn = (asked: Json): ReadonlyArray<Json> => asked["open"] as ReadonlyArray<Json>
