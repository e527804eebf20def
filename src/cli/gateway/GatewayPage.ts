/**
 * The page of a gateway (`tool-executor mcp --approve page`): approval requests that a client cannot show appear there,
 * on loopback, for holders of this run's token.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import type { Journal } from "../../core/store/Journal.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import type { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import * as Server from "../../server/api/Server.ts"
import * as Access from "../../server/users/Access.ts"
import * as Tokens from "../../server/users/Tokens.ts"
import { type CliFailure, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import { HttpPort } from "../serve/HttpPort.ts"
import type { GatewayConfig } from "./GatewayConfig.ts"

/**
 * Serves the page for the rest of the scope, says where and with which token on standard error, and gives the executors
 * whose approval requests it shows.
 */
export const open = Effect.fnUntraced(function*(
  gates: Layer.Layer<LocalExecutor.Gates | ToolHandlers, ConfigurationError>,
  config: GatewayConfig,
  record: Layer.Layer<never, CliFailure> | Layer.Layer<Journal, CliFailure>,
  port: number
) {
  const http = yield* HttpPort
  if (http === undefined) return yield* wrong("This platform cannot serve the page.")
  const token = yield* Tokens.make
  const person = {
    name: "person",
    approve: ["*"],
    records: ["*"],
    operate: true,
    tokens: [{ hash: Tokens.hash(token) }]
  }
  // durations were checked when the file was decoded
  const approvals = { timeout: config.approvalTimeout } as Server.ExecutorsOptions["approvals"]
  const users = Access.layer({ users: [person] })
  const context = yield* Layer.build(
    Server.layerExecutors({ approvals }).pipe(Layer.provide([gates, users]), Layer.provide(record))
  )
  const executors = Layer.succeedContext(context)
  const listening = http.server({ host: "127.0.0.1", port })
  const page = Server.serve(Server.layer(), listening, { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provide([executors, users, http.services])
  )
  const { address } = Context.get(yield* Layer.build(page), HttpServer.HttpServer)
  const url = `http://127.0.0.1:${"port" in address ? address.port : port}/`
  yield* Files.printError(`Approve calls at ${url} with the token of this run: ${Redacted.value(token)}\n`)
  return { executors, url }
})
