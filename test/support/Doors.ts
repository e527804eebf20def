/** A server with the real door and a handful of endpoints behind it, and clients that send what `fetch` would not. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createServer, type ServerOptions } from "node:http"
import { connect } from "node:net"
import { LoginGroup } from "../../src/server/api/Api.ts"
import { Authorization, Checks, CurrentUser } from "../../src/server/api/ApiAccess.ts"
import { LiveSse } from "../../src/server/api/ApiApprovals.ts"
import * as Models from "../../src/server/api/ApiModels.ts"
import { NotFound, Unavailable } from "../../src/server/api/ApiProblems.ts"
import * as RequestGuard from "../../src/server/guard/RequestGuard.ts"
import * as Access from "../../src/server/users/Access.ts"
import * as Logins from "../../src/server/users/Logins.ts"
import * as Tokens from "../../src/server/users/Tokens.ts"

/** Endpoints as the API has them, one of each kind. */
class Some extends HttpApiGroup.make("some")
  .add(
    HttpApiEndpoint.get("me", "/me", { success: Schema.Struct({ name: Schema.String }), error: Unavailable }),
    HttpApiEndpoint.post("submit", "/sessions/:session/waves", {
      params: { session: Models.Name },
      payload: Models.Submission,
      success: Schema.Struct({ bytes: Schema.Finite })
    }),
    HttpApiEndpoint.get("journal", "/journal", {
      query: { limit: Schema.optionalKey(Schema.FiniteFromString) },
      success: Schema.Struct({ text: Schema.optionalKey(Schema.String) })
    }),
    HttpApiEndpoint.delete("revoke", "/grants/:id", {
      params: { id: Schema.String },
      success: HttpApiSchema.NoContent,
      error: NotFound
    }),
    HttpApiEndpoint.get("live", "/live", { success: HttpApiSchema.StreamSse({ events: LiveSse }) })
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

class SomeApi extends HttpApi.make("some").add(Some, LoginGroup) {}

export interface Options extends RequestGuard.Options {
  readonly users?: ReadonlyArray<Access.UserOptions>
  readonly access?: Layer.Layer<Access.Access>
  readonly live?: Stream.Stream<LiveSse>
  readonly me?: Effect.Effect<void>
  /** What the journal has. */
  readonly text?: string
  readonly node?: ServerOptions
}

/** The body of every 401, whatever is wrong with the token. */
export const unauthorized = JSON.stringify({
  type: "urn:tool-executor:problem:unauthorized",
  status: 401,
  title: "A valid token is required."
})

export const token = (name: string): string => `token-of-${name}`

export const user = (name: string, more?: Partial<Access.UserOptions>): Access.UserOptions => ({
  name,
  run: true,
  tokens: [{ hash: Tokens.hash(Redacted.make(token(name))) }],
  ...more
})

const never: Stream.Stream<LiveSse> = Stream.never

/** The server, on a free port of this machine. */
export const layer = (options: Options = {}) => {
  const some = HttpApiBuilder.group(SomeApi, "some", (handlers) =>
    handlers
      .handle("me", () => Effect.andThen(options.me ?? Effect.void, Effect.map(CurrentUser, ({ name }) => ({ name }))))
      .handle("submit", ({ payload }) => Effect.succeed({ bytes: JSON.stringify(payload.message).length }))
      .handle("journal", () => Effect.succeed(options.text === undefined ? {} : { text: options.text }))
      .handle("revoke", () => Effect.fail(new NotFound({})))
      .handle("live", () => Effect.succeed(options.live ?? never)))
  const login = HttpApiBuilder.group(SomeApi, "login", (handlers) =>
    Effect.gen(function*() {
      const logins = yield* Logins.Logins
      return handlers
        .handle("login", ({ payload }) =>
          Effect.map(
            Access.orUnavailable(logins.login(Redacted.make(payload.token))),
            ({ expiresAt: _, ...it }) => it
          ))
        .handle("logout", () => Access.orUnavailable(logins.logout))
    }))
  const access = options.access ?? Access.layer({ users: options.users ?? [user("ada"), user("bob")] })
  return HttpRouter.serve(
    HttpApiBuilder.layer(SomeApi).pipe(
      Layer.provide([some, login]),
      Layer.provideMerge(RequestGuard.layer(options)),
      Layer.provide(access)
    ),
    { disableListenLog: true, disableLogger: true }
  ).pipe(
    Layer.provideMerge(NodeHttpServer.layer(() => createServer(options.node ?? {}), { port: 0, host: "127.0.0.1" }))
  )
}

export const port = Effect.map(HttpServer.HttpServer, ({ address }) => {
  if (address._tag === "UnixPathAddress") throw new Error("it does not listen on a port")
  return address.port
})

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Sends a request as browsers and programs do. */
export const send = (path: string, init: RequestInit & { readonly as?: string } = {}) =>
  Effect.flatMap(port, (port) =>
    Effect.promise(async (signal): Promise<Answer> => {
      const { as, ...rest } = init
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        signal,
        ...rest,
        headers: {
          ...(as === undefined ? {} : { authorization: `Bearer ${token(as)}` }),
          ...(rest.body === undefined || rest.body === null ? {} : { "content-type": "application/json" }),
          ...rest.headers as Record<string, string>
        }
      })
      return { status: response.status, headers: response.headers, text: await response.text() }
    }))

/** Sends bytes as they are; gives what comes back until the server closes, or until it says enough. */
export const sendRaw = (bytes: string | Uint8Array, isEnough: (text: string) => boolean = () => false) =>
  Effect.flatMap(port, (port) =>
    Effect.callback<string>((resume) => {
      let text = ""
      const socket = connect(port, "127.0.0.1")
      const end = () => {
        socket.destroy()
        resume(Effect.succeed(text))
      }
      socket.on("data", (data) => {
        text += data.toString("latin1")
        if (isEnough(text)) end()
      })
      socket.on("error", end)
      socket.on("close", end)
      socket.write(bytes)
      return Effect.sync(() => socket.destroy())
    }))
