/**
 * The config file of `tool-executor mcp`: MCP servers as editors write them, and
 * rules, policy and limits beside them.
 *
 * @since 0.1.0
 */
import * as EffectConfig from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Problem } from "../ConfigurationError.ts"
import type * as LocalExecutor from "../LocalExecutor.ts"
import * as McpServers from "../mcp/McpServers.ts"
import * as PolicyFile from "../policy/PolicyFile.ts"
import { describe, wrong } from "./CliFailure.ts"
import { fields, Span, Tool } from "./ConfigFields.ts"
import * as Files from "./Files.ts"

/**
 * Schema of the config file.
 *
 * @category schemas
 * @since 0.1.0
 */
export const GatewayConfig = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  mcpServers: McpServers.McpServers.annotate({
    description: "The servers behind the gateway, by name; ${NAME} in their texts is an environment variable"
  }),
  ...fields,
  tools: Schema.optionalKey(Schema.Record(Schema.String, Tool)).annotate({
    description: "What holds for single tools, by their names as the gateway gives them"
  }),
  approvalTimeout: Schema.optionalKey(Span).annotate({
    description: "How long a person may take to answer; default 5 minutes"
  })
})

/**
 * What a config file holds.
 *
 * @category models
 * @since 0.1.0
 */
export type GatewayConfig = typeof GatewayConfig.Type

/**
 * Reads a config file, with environment variables put in; fails with exit code 2
 * and every mistake. That rules and policy are about tools of the servers is seen
 * once these have answered.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = Effect.fnUntraced(function*(path: string) {
  const input = yield* Effect.flatMap(Files.read(path), (text) => Files.parseJson(text, path))
  const config = yield* Effect.mapError(decode(path)(input), (error) => wrong(describe(error)))
  const problems: Array<Problem> = []
  const mcpServers = yield* expand(config.mcpServers, "mcpServers", problems)
  if (problems.length > 0) return yield* wrong(describe({ subject: path, problems }))
  return { ...config, mcpServers: mcpServers as McpServers.McpServers }
})

/**
 * Gives the options of the executors. Equal calls run again unless the config says
 * otherwise: a client of MCP repeats calls for reasons of its own.
 *
 * @category conversions
 * @since 0.1.0
 */
export const toOptions = (config: GatewayConfig): LocalExecutor.Options => {
  const { $schema: _, approvalTimeout: __, mcpServers: ___, tools: ____, ...same } = config
  // durations were checked when the file was decoded
  return { dedupe: false, ...same } as LocalExecutor.Options
}

// Utilities

const decode = (path: string) => PolicyFile.decode(GatewayConfig, path, () => undefined)

/** Puts environment variables in place of `${NAME}`, wherever there is a text. */
const expand = (value: unknown, path: string, problems: Array<Problem>): Effect.Effect<unknown> => {
  if (typeof value === "string") return expandText(value, path, problems)
  if (Array.isArray(value)) return Effect.forEach(value, (it, index) => expand(it, `${path}[${index}]`, problems))
  if (typeof value !== "object" || value === null) return Effect.succeed(value)
  return Effect.map(
    Effect.forEach(
      Object.entries(value),
      ([key, it]) => Effect.map(expand(it, `${path}.${key}`, problems), (text) => [key, text] as const)
    ),
    Object.fromEntries
  )
}

const expandText = Effect.fnUntraced(function*(text: string, path: string, problems: Array<Problem>) {
  const names = Array.from(new Set(Array.from(text.matchAll(/\$\{(\w+)\}/g), (it) => it[1]!)))
  const values = new Map<string, string>()
  for (const name of names) {
    const found = yield* Effect.orElseSucceed(EffectConfig.option(EffectConfig.String(name)), Option.none<string>)
    if (Option.isSome(found)) values.set(name, found.value)
    else problems.push({ path, problem: `the environment has no ${name}`, expected: `${name} to be set` })
  }
  return text.replaceAll(/\$\{(\w+)\}/g, (all, name: string) => values.get(name) ?? all)
})
