/** The agents of `tool-executor serve`: their models, and the tools that agents are for other agents. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import type { AgentLimits } from "../../agent/AgentLimits.ts"
import * as DispatchAgent from "../../agent/DispatchAgent.ts"
import * as SubAgent from "../../agent/SubAgent.ts"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as Agents from "../../server/operations/Agents.ts"
import * as ModelSecrets from "../../server/operations/ModelSecrets.ts"
import * as AgentModel from "../agent/AgentModel.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as ServeAgentsConfig from "./ServeAgentsConfig.ts"

/** Makes the agents, and the tools of sub-agents with their handlers. Fails with exit code 2 if a model is missing. */
export const make = Effect.fnUntraced(function*(agents: ServeAgentsConfig.Config, file: string) {
  const path = yield* Path.Path
  const all = ServeAgentsConfig.toolNames(agents)
  const made = yield* Effect.forEach(Object.entries(agents), ([name, agent]) =>
    Effect.gen(function*() {
      const model = yield* Effect.mapError(
        AgentModel.make({ name: agent.model, baseUrl: agent.baseUrl }),
        ({ explanation }) => wrong(describe({ subject: file, problems: [problemOf(name, explanation)] }))
      )
      const system = agent.system === undefined || typeof agent.system === "string"
        ? agent.system
        : yield* Files.read(path.resolve(path.dirname(file), agent.system.file))
      return { name, agent, system, model: scrubbed(model.layer, model.secrets), secrets: model.secrets }
    }))
  const subAgents = made.filter(({ name }) => all.includes(name)).map(({ agent, model, name, system }) =>
    SubAgent.make(name, {
      description: agent.description ?? "",
      parameters: DispatchAgent.Parameters,
      prompt: ({ prompt }) => prompt,
      model,
      system,
      policy: agent.policy,
      limits: agent.limits as AgentLimits | undefined,
      compaction: agent.compaction,
      ...agent.tools === undefined ? {} : { toolkit: named([...agent.tools, ...agent.subAgents ?? []]) }
    })
  )
  const tools = [...all.includes(dispatch.tool.name) ? [dispatch] : [], ...subAgents]
  return {
    toolkits: tools.map(({ toolkit }) => toolkit),
    handlers: tools.map(({ layer }) => layer).reduce((one, other) => Layer.merge(one, other), noHandlers),
    agents: Agents.layer(Object.fromEntries(made.map(({ agent, model, name, secrets, system }) => {
      const { baseUrl: _, model: __, subAgents = [], system: ___, tools, ...about } = agent
      const others = all.filter((it) => !subAgents.includes(it))
      const options: Agents.Options = {
        ...about,
        // durations were checked when the file was decoded
        limits: about.limits as AgentLimits | undefined,
        model,
        secrets,
        system,
        ...tools === undefined
          // tools may come later, but sub-agents are for those that name them
          ? others.length === 0 ? {} : { policy: { ...about.policy, deny: [...about.policy?.deny ?? [], ...others] } }
          : { toolkit: named([...tools, ...subAgents]) }
      }
      return [name, options]
    })))
  }
})

const dispatch = DispatchAgent.make({ name: ServeAgentsConfig.dispatchAgent })

/** Toolkits of no tools need no handlers, which their type does not show. */
const noHandlers = Layer.empty as unknown as Layer.Layer<Tool.Handler<string>>

/** Only names are read of a toolkit that selects tools. */
const named = (names: ReadonlyArray<string>) => ({
  tools: Object.fromEntries(names.map((name) => [name, Tool.dynamic(name, { parameters: {} })]))
})

const scrubbed = (
  model: Layer.Layer<LanguageModel.LanguageModel>,
  secrets: ReadonlyArray<Redacted.Redacted<string>>
): Layer.Layer<LanguageModel.LanguageModel> =>
  Layer.effectContext(Effect.map(Layer.build(model), (it) => ModelSecrets.removed(it, secrets)))

const problemOf = (name: string, problem: string): Problem => ({
  path: `agents.${name}.model`,
  problem: problem.replace(/\.$/, ""),
  expected: "a model, with its key in the environment"
})
