/** `tool-executor serve` as a process of its own, spoken to over HTTP. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Tokens from "../../src/server/users/Tokens.ts"
import * as Command from "./commandProcess.ts"

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
    const { child, ended, hasEnded, written } = yield* Command.start(args, { NO_COLOR: undefined, ...env })
    /** Where it serves, as it says. */
    const url = Effect.suspend(() => {
      const said = () => /^Serving (\S+)$/m.exec(written.stdout)?.[1]
      return Effect.flatMap(
        Command.until(() => said() !== undefined || hasEnded()),
        () =>
          said() === undefined
            ? Effect.flatMap(ended, (code) => Effect.die(new Error(`It ended with ${code}: ${written.stderr}`)))
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
