/** The registry of a command: the host's own tools together with those of MCP servers. */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ToolHandlers from "../../core/vocabulary/ToolHandlers.ts"
import type * as McpServers from "../../mcp/McpServers.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

/** What is said about them. */
export interface Options {
  readonly servers: McpServers.McpServers | undefined
  readonly tools: ToolHandlers.Options["tools"]
  /** What is about tools that may come or not, each as it was written. */
  readonly unverified: ReadonlyArray<Parameters<typeof GatewayProblems.meaningless>[0]>
}

/**
 * Layer of the registry. Servers are connected to before it is there; the log then says what means nothing for the
 * tools that have come: a misspelt `deny` denies nothing.
 */
export const layer = <T extends Toolkit.Any>(
  toolkits: ReadonlyArray<T>,
  { servers, tools, unverified }: Options
) =>
  servers === undefined
    ? ToolHandlers.layer(toolkits, { tools })
    : Layer.provideMerge(
      Layer.effectDiscard(warn(unverified)),
      Layer.unwrap(Effect.map(load, (mcp) => mcp.layer(servers, { toolkits, tools })))
    )

const warn = Effect.fnUntraced(function*(unverified: Options["unverified"]) {
  const there = (yield* ToolHandlers.ToolHandlers).current()
  for (const { path, problem } of unverified.flatMap((it) => GatewayProblems.meaningless(it, there))) {
    yield* Effect.logWarning(`${path}: ${problem} at the moment`)
  }
})

/** Loaded where there are servers. */
const load = Effect.promise(() => import("../../mcp/McpTools.ts"))
