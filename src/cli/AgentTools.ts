/**
 * The executor of `tool-executor agent`: the tools that work in a folder, those of MCP servers if there are any, and
 * the gates.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DispatchAgent from "../agent/DispatchAgent.ts"
import * as LocalExecutor from "../core/assembly/LocalExecutor.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"
import type { AgentConfig } from "./AgentConfig.ts"
import * as Config from "./Config.ts"
import * as FolderTools from "./FolderTools.ts"
import * as JoinedTools from "./JoinedTools.ts"

const dispatch = DispatchAgent.make()

/** What the executor is made of. */
export interface Options {
  readonly root: string
  readonly told: AgentConfig
  /** Files that are not a call's to change. */
  readonly protect: ReadonlyArray<string>
  /** Whether it may send other agents to look around. */
  readonly subAgents: boolean
}

/** Names of the tools that are there without servers. */
export const toolNames: ReadonlyArray<string> = [
  ...Config.toolNames,
  ...Object.keys(ArtifactTools.toolkit.tools),
  dispatch.tool.name
]

/** Layer of the executor. Servers are connected to before it is there. */
export const layer = ({ protect, root, subAgents, told: { folder, options, servers, unverified } }: Options) => {
  const layerWith = (tools: FolderTools.FolderTools) => {
    const toolkits = [...tools.toolkits, ArtifactTools.toolkit]
    const about = { servers, tools: options.tools, unverified }
    const handlers = subAgents
      ? JoinedTools.layer([...toolkits, dispatch.toolkit], about).pipe(Layer.provide(dispatch.layer))
      : JoinedTools.layer(toolkits, about)
    return ToolExecutor.layer.pipe(
      Layer.provide(LocalExecutor.layerGates(options)),
      Layer.provide(handlers),
      Layer.provide(Layer.merge(tools.layer, ArtifactTools.layer))
    )
  }
  return Layer.unwrap(Effect.map(FolderTools.make(root, folder, protect), layerWith))
}
