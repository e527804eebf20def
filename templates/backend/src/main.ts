/** Serves the agent and its approval page: `npm start` */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Redacted } from "effect"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import { Server, Tokens } from "effect-tool-executor/server"
import { createServer } from "node:http"
import { requireKey } from "./key.ts"
import { model } from "./model.ts"
import { backend } from "./server.ts"

requireKey()

const port = Number(process.env["PORT"] ?? 3000)

const Backend = Layer.unwrap(Effect.gen(function*() {
  // new tokens at each start; a real backend has users of its own: see docs/server.md
  const [ada, bob] = [yield* Tokens.make, yield* Tokens.make]
  console.log(`Approvals: http://127.0.0.1:${port}/  token of bob: ${Redacted.value(bob)}

Talk to the agent as ada, then approve as bob:

  curl -N http://127.0.0.1:${port}/api/sessions/first/operations \\
    -H "Authorization: Bearer ${Redacted.value(ada)}" -H "Accept: text/event-stream" \\
    -H "Content-Type: application/json" \\
    -d '{ "agent": "support", "prompt": "Order 17 never arrived. Please pay it back." }'
`)
  return backend({ model: AiSdk.layerLanguageModel(model), filename: "backend.db", ada, bob })
}))

Server.serve(Server.layer(), NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port })).pipe(
  Layer.provide(Backend),
  Layer.provide(NodeHttpServer.layerHttpServices),
  Layer.launch,
  NodeRuntime.runMain
)
