/** When a server begins to listen: with everything there that answers. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Schema } from "effect"
import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { Access, Server, Tokens } from "effect-tool-executor/server"
import { Tool, Toolkit } from "effect/ai"
import { HttpServer } from "effect/http"
import { createServer, type Server as NodeServer } from "node:http"

const toolkit = Toolkit.make(Tool.make("look", { success: Schema.String }))

/** A backend whose tools take as long as the test likes to be there. */
const backend = (node: NodeServer, slow: Effect.Effect<void>) => {
  const Handlers = ToolHandlers.layer(toolkit).pipe(
    Layer.provide(toolkit.toLayer(Effect.as(slow, { look: () => Effect.succeed("seen") })))
  )
  const Executors = Server.layerExecutors().pipe(
    Layer.provide(LocalExecutor.layerGates()),
    Layer.provide(Handlers)
  )
  const Users = Access.layer({
    users: [{ name: "ada", tokens: [{ hash: Tokens.hash(Effect.runSync(Tokens.make)) }] }]
  })
  const Http = NodeHttpServer.layerServer(() => node, { host: "127.0.0.1", port: 0 })
  return Server.serve(Server.layer(), Http, { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provide(Executors),
    Layer.provide([Users, NodeHttpServer.layerHttpServices])
  )
}

const urlOf = (context: Context.Context<HttpServer.HttpServer>) =>
  HttpServer.formatAddress(Context.get(context, HttpServer.HttpServer).address)

describe("a server that starts", () => {
  it.live("does not listen before all that it needs is there", () =>
    Effect.gen(function*() {
      const node = createServer()
      const began = yield* Deferred.make<void>()
      const ready = yield* Deferred.make<void>()
      const slow = Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(ready))
      const building = yield* Effect.forkChild(Layer.build(backend(node, slow)))
      yield* Deferred.await(began)
      assert.isFalse(node.listening)
      yield* Deferred.succeed(ready, undefined)
      const url = urlOf(yield* Fiber.join(building))
      assert.strictEqual((yield* Effect.promise(() => fetch(`${url}/health`))).status, 200)
    }).pipe(Effect.scoped), { tags: ["SV6"] })

  it.live("has its handler before a request can come", () =>
    Effect.gen(function*() {
      const node = createServer()
      const handlers: Array<number> = []
      // nobody else gets a turn in between
      node.once("listening", () => process.nextTick(() => handlers.push(node.listenerCount("request"))))
      yield* Layer.build(backend(node, Effect.void))
      yield* Effect.yieldNow
      assert.deepStrictEqual(handlers, [1])
    }).pipe(Effect.scoped), { tags: ["SV6"] })
})
