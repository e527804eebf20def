/** Agents with their executors: those of the server, or separate ones for an agent with rules or a policy. */
import * as ModelInfo from "effect/ai/Model"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { type AgentLimits, defaultTurns } from "../../agent/AgentLimits.ts"
import * as CheckedOptions from "../../agent/CheckedOptions.ts"
import type { Gates } from "../../core/engine/ToolExecutor.ts"
import { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import * as Executors from "../../core/engine/ToolExecutors.ts"
import * as Rules from "../../core/gates/Rules.ts"
import * as RuleSet from "../../core/rules/RuleSet.ts"
import type { ToolRule } from "../../core/rules/ToolRule.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import type * as Api from "../api/ApiOperations.ts"
import type { Agent } from "./Agents.ts"
import * as ModelSecrets from "./ModelSecrets.ts"
import type { Runnable } from "./OperationRun.ts"

/** The agents as clients see them. */
export type Listed = Effect.Effect<ReadonlyArray<Api.Agent>>

/** Builds the executors of agents. Fails with everything that is wrong with an agent. */
export const make = Effect.fnUntraced(function*(
  agents: ReadonlyMap<string, Agent>
): Effect.fn.Return<
  { readonly agents: ReadonlyMap<string, Runnable>; readonly listed: Listed },
  ConfigurationError,
  Gates | Scope.Scope | ToolExecutors
> {
  const handlers = yield* ToolHandlers
  const runnable = yield* Effect.forEach(agents.values(), (agent) =>
    Effect.gen(function*() {
      const executors = yield* executorsOf(agent)
      yield* check(agent, executors)
      const model = ModelSecrets.removed(agent.model, agent.secrets ?? [])
      const made: Runnable = { agent: { ...agent, model }, executors }
      return [agent.name, made] as const
    }).pipe(Effect.mapError(of(agent.name))))
  return {
    agents: new Map(runnable),
    listed: Effect.sync(() => {
      const tools = Array.from(handlers.current().values())
      return Array.from(agents.values(), (agent) => {
        const own = agent.toolkit && new Set(Object.values(agent.toolkit.tools).map(({ name }) => name))
        const shown = tools.filter(({ name }) => own === undefined || own.has(name))
        const isAgent = ({ annotations }: typeof tools[number]) => Context.get(annotations, ToolAnnotations.Recursive)
        return {
          name: agent.name,
          ...agent.description === undefined ? {} : { description: agent.description },
          ...modelOf(agent),
          tools: shown.filter((it) => !isAgent(it)).map((it) => it.name),
          subAgents: shown.filter(isAgent).map((it) => it.name),
          onBusy: agent.onBusy,
          limits: limitsOf(agent.limits)
        }
      })
    })
  }
})

const executorsOf = Effect.fnUntraced(function*({ policy, rules }: Agent) {
  if (policy === undefined && rules === undefined) return yield* ToolExecutors
  const gates = yield* Effect.context<Gates>()
  const own = rules === undefined ? gates : Context.add(gates, Rules.Rules, yield* both(rules))
  const layer = Executors.layer(policy === undefined ? {} : { policy: () => policy })
  return Context.get(yield* Layer.build(Layer.provide(layer, Layer.succeedContext(own))), ToolExecutors)
})

/** The current rules of the server, and more. */
const both = Effect.fnUntraced(function*(rules: ReadonlyArray<ToolRule>) {
  const server = yield* Rules.Rules
  const own = yield* Rules.make(rules)
  const handlers = yield* ToolHandlers
  let from: readonly [RuleSet.RuleSet, RuleSet.RuleSet] | undefined
  let joined: RuleSet.RuleSet | undefined
  return Rules.fromSet(() => {
    const [one, other] = [server.current(), own.current()]
    if (joined === undefined || from?.[0] !== one || from[1] !== other) {
      // both have the rules of the tools themselves
      const all = new Map([...one.rules, ...other.rules].map((it) => [canonicalJson(it), it]))
      from = [one, other]
      joined = RuleSet.make(Array.from(all.values()), handlers.current().keys())
    }
    return joined
  })
})

/** Checks the options of an agent as if an operation began. */
const check = (
  { name, ...agent }: Agent,
  executors: ToolExecutors["Service"]
): Effect.Effect<void, ConfigurationError> =>
  Effect.gen(function*() {
    // no user has such a session
    const principal = `/${name}`
    const executor = yield* executors.get(principal)
    const { description: _, model: __, onBusy: ___, policy: ____, rules: _____, secrets: ______, ...options } = agent
    yield* CheckedOptions.check(executor, { ...options, prompt: "check" })
    yield* executors.end(principal)
  }).pipe(Effect.scoped)

/** Gives problems as those of an agent. */
const of = (agent: string) => ({ problems, subject }: ConfigurationError): ConfigurationError =>
  new ConfigurationError({
    subject: "Agents",
    problems: problems.map((it) => ({
      ...it,
      path: `${agent}.${subject === "Permissions" ? "policy." : ""}${it.path}`
    }))
  })

const limitsOf = ({ calls, cost, time, tokens, turns = defaultTurns }: AgentLimits = {}): Api.Agent["limits"] => ({
  turns,
  ...calls === undefined ? {} : { calls },
  ...tokens === undefined ? {} : { tokens },
  ...time === undefined ? {} : { timeMillis: Duration.toMillis(time) },
  ...cost === undefined ? {} : { cost: cost.max }
})

const modelOf = ({ model }: Agent): { readonly model?: string } => {
  const name = Option.getOrUndefined(Context.getOption(model, ModelInfo.ModelName))
  const provider = Option.getOrUndefined(Context.getOption(model, ModelInfo.ProviderName))
  return name === undefined ? {} : { model: provider === undefined ? name : `${provider}:${name}` }
}
