/**
 * What a gateway, its transport and its host know of one another: when the tools
 * are there, that their list has changed, and that it is time to end.
 *
 * `layerStdio` and `layerHttp` put it before a server of `effect/ai`. The end of
 * standard input is the client's end: what waits never starts, questions are
 * withdrawn, and what runs is interrupted. Over HTTP bodies are bounded, and a
 * client that listens is told of changes.
 *
 * **Example** (A server that ends without tearing its calls)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { McpProtocol, McpServer } from "effect/ai"
 * import { McpDoor, McpGateway } from "effect-tool-executor/mcp"
 *
 * export const serve = Effect.gen(function*() {
 *   const door = yield* McpDoor.make()
 *   const server = McpServer.layerStdio({
 *     name: "tools",
 *     version: "1.0.0",
 *     protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
 *     registrations: McpGateway.layer({ door }) // requires ToolExecutor
 *   })
 *   // `door.end(reason)` cancels what runs, and waits until every call has its answer
 *   yield* Layer.launch(Layer.provide(server, McpDoor.layerStdio(door)))
 * })
 * ```
 *
 * @since 0.1.0
 */
import type * as HttpRouter from "effect/http/HttpRouter"
import type * as Layer from "effect/Layer"
import type * as Stdio from "effect/Stdio"
import type { McpDoor } from "./Door.ts"
import * as HttpDoor from "./HttpDoor.ts"
import * as StdioDoor from "./StdioDoor.ts"

export { make, type McpDoor, type Options } from "./Door.ts"

/**
 * Layer of the standard input that a server is to read, in place of the real one.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerStdio = (door: McpDoor): Layer.Layer<Stdio.Stdio, never, Stdio.Stdio> => StdioDoor.layer(door)

/**
 * Options of a door on HTTP.
 *
 * @category options
 * @since 0.1.0
 */
export interface HttpOptions {
  /** Bytes that the body of a request may have; of one that begins a session it is 64 kB. Default 10 MiB. */
  readonly maxBodyBytes?: number | undefined
  /**
   * Sessions at once. Where there are more, the one that was used longest ago and that nothing runs in is ended, and
   * where something runs in all of them no other begins. Default 1,000.
   */
  readonly maxSessions?: number | undefined
}

/**
 * Layer to provide to `McpServer.layerHttp`, of what stands before it: bodies are bounded, in size and
 * in time; a connection that is lost cancels no call of a session, whose client reads on where it was; a client
 * that listens (GET) is told when the list of tools changes; one that asks for a revision without sessions where
 * there is none is told so, and takes another.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerHttp = (
  door: McpDoor,
  options: HttpOptions = {}
): Layer.Layer<never, never, HttpRouter.HttpRouter> => HttpDoor.layer(door, options)
