/**
 * The config file of `tool-executor run`: rules, policy and limits as JSON.
 *
 * Every mistake that can be seen in the file alone is found when it is read, all at once; an unknown key is one.
 */
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AtLeastOne, fields, Span, Tool } from "../assembly/ConfigFields.ts"
import type * as LocalExecutor from "../assembly/LocalExecutor.ts"
import * as Policy from "../core/gates/Policy.ts"
import * as PolicyFile from "../core/gates/PolicyFile.ts"
import type * as RuleSet from "../core/rules/RuleSet.ts"
import type { Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import * as FetchTools from "../tools/fetch/FetchTools.ts"
import * as PublicAddress from "../tools/fetch/PublicAddress.ts"
import * as SandboxOptions from "../tools/sandbox/SandboxOptions.ts"
import * as WorkspaceTools from "../tools/workspace/WorkspaceTools.ts"
import { type CliFailure, describe, wrong } from "./CliFailure.ts"
import * as Files from "./Files.ts"
import * as BesidePolicy from "./gateway/BesidePolicy.ts"
import * as PolicyTiers from "./policy/PolicyTiers.ts"

/** The tools that `run` has. */
export const toolkit = Toolkit.merge(WorkspaceTools.toolkit, FetchTools.toolkit)

/** Names of the tools that `run` has. */
export const toolNames: ReadonlyArray<string> = Object.keys(toolkit.tools)

const Private = Schema.String.check(
  Schema.makeFilter((text) => Result.isSuccess(PublicAddress.reach([text])), {
    expected: "a host such as \"localhost\", an address, or a range such as \"10.0.0.0/8\""
  })
)

/** The tools that `run` has, for rules about them. */
export const tools: ReadonlyMap<string, RuleSet.RuleTool> = new Map(
  Object.values(toolkit.tools).map((tool) => [tool.name, { jsonSchema: ToolHandlers.jsonSchemaOf(tool) }])
)

/** Schema of the config file. */
export const Config = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  ...fields,
  ...BesidePolicy.fields,
  tools: Schema.optionalKey(
    Schema.Struct(Object.fromEntries(toolNames.map((name) => [name, Schema.optionalKey(Tool)])))
  ),
  fetch: Schema.optionalKey(Schema.Struct({
    allowPrivate: Schema.optionalKey(Schema.Array(Private)).annotate({
      description: "Hosts, addresses and ranges that may be reached although they are private"
    }),
    maxBytes: Schema.optionalKey(AtLeastOne).annotate({ description: "Maximum number of bytes of a body" }),
    connectTimeout: Schema.optionalKey(Span).annotate({
      description: "Timeout for looking up a name and connecting"
    })
  })).annotate({ description: "What fetch_url may reach and return; the policy decides which hosts need no approval" }),
  environment: Schema.optionalKey(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of the environment variables that run_command may see"
  }),
  sandbox: Schema.optionalKey(SandboxOptions.SandboxOptions).annotate({
    description: "The sandbox that run_command runs in; default: none"
  })
})

/** What a config file holds. */
export type Config = typeof Config.Type

/**
 * Reads a config file; fails with exit code 2 and every mistake. `names` are those of the tools that rules and policy
 * may be about.
 */
export const read = Effect.fnUntraced(function*(path: string, names: ReadonlyArray<string> = toolNames) {
  const input = yield* Files.readJson(path)
  return yield* decode(input, path, names)
})

/** Decodes a config that is parsed already; fails with exit code 2 and every mistake. */
export const decode = (
  input: unknown,
  path: string,
  names: ReadonlyArray<string> = toolNames
): Effect.Effect<Config, CliFailure> => {
  const known = new Map(names.map((name) => [name, tools.get(name) ?? {}]))
  return Effect.mapError(PolicyFile.decode(Config, path, () => known)(input), (error) => wrong(describe(error)))
}

/**
 * Checks what the command line adds to the policy, which has to be about tools that are there: by default those of
 * `run`.
 */
export const checkFlags = (
  policy: Policy.Policy,
  names: ReadonlyArray<string> = toolNames
): Effect.Effect<void, CliFailure> =>
  reportFlags(Result.match(Policy.parse(policy, names), { onFailure: (problems) => problems, onSuccess: () => [] }))

/** Fails with exit code 2 where there is something wrong with what the command line adds to the policy. */
export const reportFlags = (problems: ReadonlyArray<Problem>): Effect.Effect<void, CliFailure> =>
  problems.length === 0
    ? Effect.void
    : Effect.fail(wrong(describe({ subject: "usage", problems: problems.map(toFlag) })))

/** Gives the options of the executor for a config, the tiers above it, and what the command line adds. */
export const toOptions = (
  config: Config,
  more: Policy.Policy,
  above: Pick<PolicyTiers.Above, "tiers">
): LocalExecutor.Options => {
  const {
    $schema: _,
    environment: __,
    fetch: ___,
    policy,
    reviewer: ____,
    sandbox: _____,
    shadow: ______,
    ...same
  } = config
  // durations were checked when the file was decoded
  return { ...same, policy: PolicyTiers.under(above, policy, more) } as LocalExecutor.Options
}

const toFlag = (problem: Problem): Problem => ({
  ...problem,
  path: `--${problem.path.replace(/^policy\.|\[.*$/g, "")}`
})
