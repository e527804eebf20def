/** The agents in the config of `tool-executor serve`. */
import * as Schema from "effect/Schema"
import { AtLeastOne, fields, Span } from "../../assembly/ConfigFields.ts"
import * as PolicyFile from "../../core/gates/PolicyFile.ts"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { Name } from "../../server/api/ApiModels.ts"
import { OnBusy } from "../../server/api/ApiOperations.ts"

const optional = Schema.optionalKey

const Price = Schema.Struct({
  input: Schema.Finite,
  output: Schema.Finite,
  cachedInput: optional(Schema.Finite),
  cacheWrite: optional(Schema.Finite)
})

const Limits = Schema.Struct({
  turns: optional(AtLeastOne).annotate({ description: "Requests to the model; default 100" }),
  calls: optional(AtLeastOne).annotate({ description: "Calls that may start; default unlimited" }),
  tokens: optional(AtLeastOne).annotate({ description: "Input and output tokens; default unlimited" }),
  time: optional(Span).annotate({ description: "Running time without waiting for approval; default unlimited" }),
  cost: optional(Schema.Struct({ max: Schema.Finite, prices: Schema.Record(Schema.String, Price) })).annotate({
    description: "Cost of the tokens, with the price of a million tokens by model: PROVIDER:NAME, NAME or *"
  })
})

const Share = Schema.Finite.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(1))

const Compaction = Schema.Struct({
  window: AtLeastOne.annotate({ description: "Tokens of the model's context window" }),
  at: optional(Share).annotate({ description: "Share of the window above which it compacts; default 0.8" }),
  keepTurns: optional(AtLeastOne).annotate({ description: "Turns kept word for word; default 4" }),
  by: optional(Schema.Literals(["summary", "drop"])).annotate({
    description: "What stands for older turns: a summary by the model (default), or a note that they are missing"
  })
})

const Agent = Schema.Struct({
  description: optional(Schema.NonEmptyString).annotate({
    description: "What it is for; other agents read it if they may use it as a sub-agent"
  }),
  model: optional(Schema.NonEmptyString).annotate({
    description:
      "PROVIDER:NAME as in `tool-executor agent`; default $TOOL_EXECUTOR_MODEL. Keys come from the environment"
  }),
  baseUrl: optional(Schema.NonEmptyString).annotate({ description: "URL of the provider's API" }),
  system: optional(Schema.Union([
    Schema.String,
    Schema.Struct({ file: Schema.NonEmptyString.annotate({ description: "Path, relative to this file" }) })
  ])).annotate({ description: "The system prompt" }),
  tools: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of its tools; default all tools of the server"
  }),
  subAgents: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of other agents here that it may start, or dispatch_agent, which only reads; default none"
  }),
  rules: fields.rules.annotate({ description: "Rules in addition to those of the server" }),
  policy: fields.policy.annotate({ description: "What it may do less than the policy allows" }),
  limits: optional(Limits).annotate({ description: "Limits of an operation" }),
  compaction: optional(Compaction).annotate({
    description: "Summarises or drops older turns near the model's context window; default off"
  }),
  onBusy: optional(OnBusy).annotate({
    description: "What happens to a message that arrives while it works: queue (default), settle, interrupt or reject"
  })
})

export const Config = Schema.Record(Name, Agent)

export type Config = typeof Config.Type

/** Names of the tools that agents are for other agents. */
export const toolNames = (agents: Config): ReadonlyArray<string> =>
  Array.from(new Set(Object.values(agents).flatMap(({ subAgents = [] }) => subAgents)))

/** What is wrong with agents; `tools` are the names of all tools, if they are known. */
export const problemsOf = (agents: Config, tools: ReadonlyArray<string> | undefined): ReadonlyArray<Problem> =>
  Object.entries(agents).flatMap(([name, { policy, subAgents = [], tools: own = [] }]) => [
    ...own.flatMap((tool, index) =>
      tools === undefined || tools.includes(tool) ? [] : [{
        path: `agents.${name}.tools[${index}]`,
        problem: `there is no tool ${JSON.stringify(tool)}`,
        expected: `one of ${tools.join(", ")}`
      }]
    ),
    ...subAgents.flatMap((sub, index) => {
      const path = `agents.${name}.subAgents[${index}]`
      if (sub === dispatchAgent) return []
      const agent = Object.hasOwn(agents, sub) ? agents[sub] : undefined
      if (agent === undefined) {
        const expected = `one of ${[...Object.keys(agents), dispatchAgent].join(", ")}`
        return [{ path, problem: `there is no agent ${JSON.stringify(sub)}`, expected }]
      }
      return [
        ...agent.description === undefined
          ? [{ path: `agents.${sub}.description`, problem: "it is missing", expected: `a text for the agent ${name}` }]
          : [],
        ...toolName.test(sub) && tools?.filter((it) => it === sub).length !== 2 ? [] : [{
          path,
          problem: `${JSON.stringify(sub)} cannot be the name of a tool`,
          expected: "1 to 64 letters, digits, _ and -, and no name of another tool"
        }]
      ]
    }),
    ...PolicyFile.problemsOf(policy, tools).map((it) => ({ ...it, path: `agents.${name}.${it.path}` }))
  ])

/** The sub-agent that only reads. */
export const dispatchAgent = "dispatch_agent"

/** What providers accept as the name of a tool. */
const toolName = /^[A-Za-z0-9_-]{1,64}$/
