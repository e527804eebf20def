/**
 * The configuration of the tools of `tool-executor agent`: from `--config` (the format of `run`), from `--mcp` (the
 * format of `mcp`) and from flags.
 *
 * What both files say is joined: rules and the lists of the policy hold together. Of what can be said once only one of
 * them may speak.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import type * as Policy from "../../core/gates/Policy.ts"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import type * as McpServers from "../../mcp/McpServers.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Config from "../Config.ts"
import * as GatewayConfig from "../gateway/GatewayConfig.ts"
import * as GatewayProblems from "../gateway/GatewayProblems.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"

/** Where it is said. */
export interface Given {
  readonly config: Option.Option<string>
  readonly mcp: Option.Option<string>
  /** What flags add to the policy. */
  readonly policy: Policy.Policy
}

/** The configuration of the agent's tools. */
export interface AgentConfig {
  /** For the tools that work in the folder. */
  readonly folder: Config.Config
  readonly servers: McpServers.McpServers | undefined
  readonly options: LocalExecutor.Options
  /** The files of the tiers above: no call may write to them. */
  readonly protect: ReadonlyArray<string>
  /** What is about tools that may come or not, each as it was written. */
  readonly unverified: ReadonlyArray<Parameters<typeof GatewayProblems.meaningless>[0]>
}

/**
 * Reads it; fails with exit code 2 and every mistake of a file. `own` are the names of the tools that are there without
 * servers.
 */
export const read = Effect.fnUntraced(function*({ config, mcp, policy }: Given, own: ReadonlyArray<string>) {
  const folder = Option.isSome(config) ? yield* Config.read(config.value, own) : {}
  const { $schema: _, ...ofFolder } = folder
  const above = yield* PolicyTiers.above
  if (Option.isNone(mcp)) {
    yield* Config.checkFlags(policy, own)
    const told: AgentConfig = {
      folder,
      servers: undefined,
      options: Config.toOptions(ofFolder, policy, above),
      protect: above.files,
      unverified: []
    }
    return told
  }
  const gateway = yield* GatewayConfig.read(mcp.value, own)
  const { $schema: __, approvalTimeout: ___, mcpServers: servers, ...ofServers } = gateway
  yield* Config.reportFlags(GatewayProblems.ofNames({ mcpServers: servers, policy }, own))
  const problems: Array<Problem> = []
  const both = join(ofFolder, ofServers, "", problems) as Config.Config
  if (problems.length > 0) return yield* wrong(describe({ subject: "--config and --mcp", problems }))
  const told: AgentConfig = {
    folder,
    servers,
    options: Config.toOptions(both, policy, above),
    protect: above.files,
    unverified: [ofServers, { policy }]
  }
  return told
})

const join = (one: unknown, other: unknown, path: string, problems: Array<Problem>): unknown => {
  if (one === undefined || other === undefined) return one ?? other
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other]
  if (isRecord(one) && isRecord(other)) {
    const keys = new Set([...Object.keys(one), ...Object.keys(other)])
    return Object.fromEntries(
      Array.from(keys, (key) => [key, join(one[key], other[key], path === "" ? key : `${path}.${key}`, problems)])
    )
  }
  if (one !== other) {
    problems.push({ path, problem: "the two files disagree", expected: "the setting in one file only" })
  }
  return one
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  Predicate.isObject(value) && !Array.isArray(value)
