/**
 * A server with an agent over a scripted model, on a free port of loopback: tools that wait for approval or until a test
 * lets them go, and a sub-agent.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Deferred, Effect, Exit, Layer, Redacted, Schema, Scope } from "effect"
import { Journal, LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { SubAgent } from "effect-tool-executor/agent"
import { Access, Agents, Server, Tokens } from "effect-tool-executor/server"
import { type ModelRequest, ScriptedModel } from "effect-tool-executor/testing"
import { Tool, Toolkit } from "effect/ai"
import { HttpServer } from "effect/http"
import { createServer } from "node:http"
import { words } from "./Agents.ts"

/** Ada runs agents and approves for herself. */
export const token = Redacted.value(Effect.runSync(Tokens.make))

/** Eve runs agents, and approves for nobody. Cy approves for Ada. */
export const others = {
  eve: Redacted.value(Effect.runSync(Tokens.make)),
  cy: Redacted.value(Effect.runSync(Tokens.make))
}

const Refund = Tool.make("refund", {
  description: "Refunds an order",
  parameters: Schema.Struct({ order: Schema.String, amount: Schema.Finite }),
  success: Schema.Struct({ refunded: Schema.Finite })
})

const Hold = Tool.make("hold", { description: "Waits", parameters: Schema.Struct({}), success: Schema.String })
  .annotate(Tool.Readonly, true)

const clerk = SubAgent.make("clerk", {
  description: "Refunds orders",
  parameters: Schema.Struct({ order: Schema.String }),
  prompt: ({ order }) => `clerk: refund ${order}`,
  toolkit: Toolkit.make(Refund)
})

const toolkit = Toolkit.merge(Toolkit.make(Refund, Hold), clerk.toolkit)

/** What the model does next: it follows the last message of the user. */
const script = ({ prompt }: ModelRequest.ModelRequest) => {
  const said = words(prompt)
  const asked = said.findLastIndex((it) => it.startsWith("user: "))
  const text = said[asked]!.slice("user: ".length)
  const results = said.slice(asked).filter((it) => /^(?:result|error) /.test(it))
  if (results.length > 0) return { text: `I have read: ${results.join(" and ")}` }
  const refund = (amount: number) => ({ name: "refund", params: { order: `o${amount}`, amount } })
  switch (text) {
    case "refund":
      return { reasoning: "Is that so?", text: "One moment.", calls: [refund(5)] }
    case "refund two":
      return { text: "Two of them.", calls: [refund(1), refund(2)] }
    case "clerk: refund o7":
      return { text: "I refund it.", calls: [refund(7)] }
    case "delegate":
      return { text: "My clerk does it.", calls: [{ name: "clerk", params: { order: "o7" } }] }
    case "hold":
      return { text: "Wait for it.", calls: [{ name: "hold", params: {} }] }
    case "fail":
      return { text: "I try.", cutAfter: 3, fails: "the provider is down" }
    default:
      return { text: `You said: ${text}`, usage: { input: 3, output: 4 } }
  }
}

export interface AgentServer {
  readonly url: string
  /** What was refunded, in order. */
  readonly refunds: ReadonlyArray<number>
  /** Lets the calls of `hold` end. */
  readonly release: Effect.Effect<void>
  /** Requests to the model. */
  readonly requests: Effect.Effect<number>
  readonly stop: Effect.Effect<void>
}

/** Starts a server, for as long as the scope is open. */
export const start = Effect.fnUntraced(
  function*(
    server: Server.Options = {},
    policy: LocalExecutor.Options["policy"] = { default: "allow", ask: ["refund"] }
  ): Effect.fn.Return<AgentServer, never, Scope.Scope> {
    const refunds: Array<number> = []
    const released = yield* Deferred.make<void>()
    const model = yield* Effect.orDie(ScriptedModel.make(script))
    const handlers = Toolkit.make(Refund, Hold).toLayer({
      refund: ({ amount }) => Effect.as(Effect.sync(() => refunds.push(amount)), { refunded: amount }),
      hold: () => Effect.as(Deferred.await(released), "held")
    })
    const executors = Server.layerExecutors().pipe(
      Layer.provide(LocalExecutor.layerGates({ policy, dedupe: false })),
      Layer.provide(ToolHandlers.layer(toolkit).pipe(Layer.provide([handlers, clerk.layer]))),
      Layer.provide(Agents.layer({ helper: { model: model.layer } }))
    )
    const http = NodeHttpServer.layerServer(createServer, {
      host: "127.0.0.1",
      port: 0,
      gracefulShutdownTimeout: "1 second"
    })
    const hash = (token: string) => [{ hash: Tokens.hash(Redacted.make(token)) }]
    const users = [
      { name: "ada", run: true, approve: ["ada"], tokens: hash(token) },
      { name: "eve", run: true, tokens: hash(others.eve) },
      { name: "cy", approve: ["ada"], tokens: hash(others.cy) }
    ]
    const layer = Server.serve(Server.layer({ page: false, ...server }), http, {
      disableLogger: true,
      disableListenLog: true
    }).pipe(
      Layer.provideMerge(executors),
      Layer.provide(Access.layer({ users })),
      Layer.provide(Journal.layerMemory()),
      Layer.provide(NodeHttpServer.layerHttpServices)
    )
    const scope = yield* Scope.fork(yield* Scope.Scope)
    const services = yield* Effect.orDie(Layer.buildWithScope(layer, scope))
    return {
      url: HttpServer.formatAddress(Context.get(services, HttpServer.HttpServer).address),
      refunds,
      release: Effect.asVoid(Deferred.succeed(released, undefined)),
      requests: Effect.map(model.requests, (all) => all.length),
      stop: Scope.close(scope, Exit.void)
    }
  }
)
