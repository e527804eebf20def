/** Agents by name, which clients start operations with. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as AgentExecutor from "../../agent/AgentExecutor.ts"
import type * as Policy from "../../core/gates/Policy.ts"
import type { ToolRule } from "../../core/rules/ToolRule.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import { isName } from "../api/ApiModels.ts"
import type { OnBusy } from "../api/ApiOperations.ts"

/** What an agent is, apart from its model. */
interface About extends Omit<AgentExecutor.Options, "batch" | "id" | "mode" | "model" | "prompt" | "session"> {
  /** For people who choose an agent. */
  readonly description?: string | undefined
  /** Rules that hold for this agent in addition to those of the server. */
  readonly rules?: ReadonlyArray<ToolRule> | undefined
  /** Limits what the agent may do further than the policy of the server. */
  readonly policy?: Policy.Policy | undefined
  /** What happens to a message that arrives while an operation runs. Default `"queue"`. */
  readonly onBusy?: OnBusy | undefined
  /** Texts that are removed from errors of the model, such as its key: some providers repeat it. */
  readonly secrets?: ReadonlyArray<Redacted.Redacted<string>> | undefined
}

/** Options of an agent. Its tools are those of the server, or those of `toolkit`. */
export interface Options<E = never, R = never> extends About {
  /** The model, with its provider and name. It is built once for all operations. */
  readonly model: Layer.Layer<LanguageModel.LanguageModel, E, R>
}

/** An agent with its model. */
export interface Agent extends About {
  readonly name: string
  readonly onBusy: OnBusy
  readonly model: Context.Context<LanguageModel.LanguageModel>
}

/** The agents of a server, by name. */
export class Agents extends Context.Service<Agents, ReadonlyMap<string, Agent>>()(
  "effect-tool-executor/server/Agents"
) {}

/**
 * Layer of agents by name. Models are built with the layer; `Operations` checks the rest against the tools of the
 * server when it is built.
 */
export const layer = <E = never, R = never>(
  agents: { readonly [name: string]: Options<E, R> }
): Layer.Layer<Agents, ConfigurationError | E, R> =>
  Layer.effect(
    Agents,
    Effect.gen(function*() {
      const reader = new OptionReader()
      for (const [name, { onBusy }] of Object.entries(agents)) {
        if (!isName(name)) {
          const expected = "1 to 100 of A-Z a-z 0-9 . _ : - , the first a letter or digit"
          reader.problems.push({ path: name, problem: "it is not a name", expected })
        }
        if (onBusy !== undefined) reader.oneOf(`${name}.onBusy`, onBusy, ["queue", "settle", "interrupt", "reject"])
      }
      const { problems } = reader
      if (problems.length > 0) return yield* new ConfigurationError({ subject: "Agents", problems })
      const made = yield* Effect.forEach(
        Object.entries(agents),
        ([name, { model, onBusy = "queue", ...about }]) =>
          Effect.map(Layer.build(model), (model): [string, Agent] => [name, { ...about, name, onBusy, model }])
      )
      return new Map(made)
    })
  )
