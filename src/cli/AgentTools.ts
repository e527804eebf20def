/**
 * The executor of `tool-executor agent`: the tools that work in a folder, those of MCP
 * servers if there are any, and the gates.
 *
 * @since 0.1.0
 */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DispatchAgent from "../agent/DispatchAgent.ts"
import { escape } from "../internal/escape.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import type * as McpServers from "../mcp/McpServers.ts"
import * as ToolExecutor from "../ToolExecutor.ts"
import * as ToolHandlers from "../ToolHandlers.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"
import type { AgentConfig } from "./AgentConfig.ts"
import { wrong } from "./CliFailure.ts"
import * as Config from "./Config.ts"
import * as FolderTools from "./FolderTools.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

const dispatch = DispatchAgent.make()

/**
 * What the executor is made of.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly root: string
  readonly told: AgentConfig
  /** Files that are not a call's to change. */
  readonly protect: ReadonlyArray<string>
  /** Whether it may send other agents to look around. */
  readonly subAgents: boolean
}

/**
 * Names of the tools that are there without servers.
 *
 * @category constants
 * @since 0.1.0
 */
export const toolNames: ReadonlyArray<string> = [
  ...Config.toolNames,
  ...Object.keys(ArtifactTools.toolkit.tools),
  dispatch.tool.name
]

/**
 * Layer of the executor. Servers are connected to before it is there.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = ({ protect, root, subAgents, told: { folder, options, servers, unsure } }: Options) => {
  const tools = FolderTools.make(root, folder, protect)
  const toolkits = [...tools.toolkits, ArtifactTools.toolkit]
  const handlers = subAgents
    ? handlersOf([...toolkits, dispatch.toolkit], options, servers).pipe(Layer.provide(dispatch.layer))
    : handlersOf(toolkits, options, servers)
  return ToolExecutor.layer.pipe(
    Layer.provide(LocalExecutor.layerGates(options)),
    Layer.provideMerge(servers === undefined ? Layer.empty : Layer.effectDiscard(warn(unsure))),
    Layer.provide(handlers),
    Layer.provide(Layer.merge(tools.layer, ArtifactTools.layer))
  )
}

// Utilities

/** The registry of these tools, and of those of servers if there are any. */
const handlersOf = <T extends Toolkit.Any>(
  toolkits: ReadonlyArray<T>,
  { tools }: LocalExecutor.Options,
  servers: McpServers.McpServers | undefined
) =>
  servers === undefined
    ? ToolHandlers.layer(toolkits, { tools })
    : Layer.unwrap(Effect.map(load, (mcp) => mcp.layer(servers, { toolkits, tools })))

/** Says what means nothing for the tools that have come: a misspelt `deny` denies nothing. */
const warn = Effect.fnUntraced(function*(unsure: AgentConfig["unsure"]) {
  const there = (yield* ToolHandlers.ToolHandlers).current()
  for (const { path, problem } of unsure.flatMap((it) => GatewayProblems.meaningless(it, there))) {
    yield* Effect.logWarning(`${path}: ${problem}, at least not now`)
  }
})

/** The client of MCP, which other commands do without. */
const load = Effect.tryPromise({
  try: () => import("../mcp/McpTools.ts"),
  catch: (cause) =>
    wrong(
      `The servers cannot be reached (${escape(cause instanceof Error ? cause.message : String(cause))}). ` +
        "It needs @modelcontextprotocol/client: npm install @modelcontextprotocol/client"
    )
})
