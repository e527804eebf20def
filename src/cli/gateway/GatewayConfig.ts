/** The config file of `tool-executor mcp`: MCP servers as editors write them, with rules, policy and limits. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { fields, Span, Tool } from "../../assembly/ConfigFields.ts"
import type * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import * as PolicyFile from "../../core/gates/PolicyFile.ts"
import type { ConfigurationError, Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as Texts from "../../internal/secrets/index.ts"
import * as McpServers from "../../mcp/McpServers.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import * as Variables from "../Variables.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

/** Schema of the config file. */
export const GatewayConfig = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  mcpServers: McpServers.McpServers.annotate({
    description: "The servers behind the gateway, by name; ${NAME} in their texts is an environment variable"
  }),
  ...fields,
  policy: fields.policy.annotate({ description: "What may run" }),
  dedupe: fields.dedupe.annotate({
    description: "How equal calls are deduplicated; false, the default, runs them all"
  }),
  tools: Schema.optionalKey(Schema.Record(Schema.String, Tool)).annotate({
    description: "Settings of single tools, by the names that the gateway gives them"
  }),
  approvalTimeout: Schema.optionalKey(Span).annotate({
    description: "Timeout of an approval request; default 5 minutes"
  })
})

/** What a config file holds. */
export type GatewayConfig = typeof GatewayConfig.Type

/** A config, and the tiers above it. */
export interface Tiered extends GatewayConfig {
  readonly above: PolicyTiers.Above
}

/**
 * Reads a config file, with environment variables put in; fails with exit code 2 and every mistake. Servers that are
 * disabled are left out. Whether a server has the very tool that rules and policy are about is seen once it has
 * answered; `own` are the tools of the host, by default the gateway's.
 */
export const read = Effect.fnUntraced(function*(path: string, own?: ReadonlyArray<string>) {
  const input = yield* Files.readJson(path)
  if (!hasServers(input)) return yield* Effect.mapError(decode(path)(input), (error) => wrong(describe(error)))
  return yield* decodeServers(input, path, decode(path), (config) => GatewayProblems.ofNames(config, own))
})

/** Tells whether a parsed config has servers, whatever they are. */
export const hasServers = (input: unknown): input is { readonly mcpServers: object } => {
  const servers = typeof input === "object" && input !== null && "mcpServers" in input ? input.mcpServers : undefined
  return typeof servers === "object" && servers !== null && !Array.isArray(servers)
}

/**
 * Decodes a parsed config that has servers, with environment variables put into them; fails with exit code 2 and every
 * mistake, those that `problemsIn` finds included.
 */
export const decodeServers = Effect.fnUntraced(function*<A>(
  input: { readonly mcpServers: object },
  path: string,
  decode: (input: unknown) => Effect.Effect<A, ConfigurationError>,
  problemsIn: (config: A) => ReadonlyArray<Problem>
) {
  const { problems: unset, value, values, written } = yield* Variables.expand(enabled(input.mcpServers), "mcpServers")
  const servers = value as Readonly<Record<string, unknown>>
  const decoded = yield* Effect.result(decode({ ...input, mcpServers: servers }))
  const problems = [
    ...unset,
    ...McpServers.problemsOf(servers, "mcpServers").flatMap((it) => {
      const text = written.get(it.path)
      if (unset.some(({ path }) => path === it.path)) return []
      return text === undefined
        ? [{ ...it, problem: Texts.without(it.problem, values) }]
        : [{ ...it, problem: `it is the value of ${JSON.stringify(text)}` }]
    }),
    ...yield* withoutFolder(servers, written),
    ...Result.isSuccess(decoded)
      ? problemsIn(decoded.success)
      // of a server there is more to say than that it fits no member of the union
      : decoded.failure.problems.filter((it) => !it.path.startsWith("mcpServers."))
  ]
  if (Result.isFailure(decoded) || problems.length > 0) return yield* wrong(describe({ subject: path, problems }))
  return decoded.success
})

/** Gives the options of the executors. Equal calls run again by default, since MCP clients repeat calls on purpose. */
export const toOptions = (config: Tiered): LocalExecutor.Options => {
  const { $schema: _, above, approvalTimeout: __, mcpServers: ___, policy, tools: ____, ...same } = config
  // durations were checked when the file was decoded
  return { dedupe: false, ...same, policy: PolicyTiers.under(above, policy) } as LocalExecutor.Options
}

const decode = (path: string) => PolicyFile.decode(GatewayConfig, path, () => undefined)

/** Folders from the environment that are not there: the error of the server would show what they are. */
const withoutFolder = Effect.fnUntraced(function*(
  servers: Readonly<Record<string, unknown>>,
  written: ReadonlyMap<string, string>
) {
  const files = yield* FileSystem.FileSystem
  const problems: Array<Problem> = []
  for (const [name, server] of Object.entries(servers)) {
    const path = `mcpServers.${name}.cwd`
    const text = written.get(path)
    if (text === undefined || !Predicate.hasProperty(server, "cwd") || typeof server.cwd !== "string") continue
    if (yield* Effect.orElseSucceed(files.exists(server.cwd), () => false)) continue
    problems.push({ path, problem: `it is the value of ${JSON.stringify(text)}`, expected: "a folder that is there" })
  }
  return problems
})

const enabled = (servers: object): object =>
  Object.fromEntries(
    Object.entries(servers).filter(([, it]: readonly [string, unknown]) =>
      typeof it !== "object" || it === null || !("disabled" in it) || it.disabled !== true
    )
  )
