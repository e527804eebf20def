/**
 * The config file of `tool-executor serve`: the tools, rules, policy and limits as the other commands have them, and
 * how and for whom they are served.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { AtLeastOne, fields, Span, SpanOrNone, Tool } from "../../assembly/ConfigFields.ts"
import type * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import * as PolicyFile from "../../core/gates/PolicyFile.ts"
import type * as RuleSet from "../../core/rules/RuleSet.ts"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../../core/vocabulary/ToolHandlers.ts"
import * as McpServers from "../../mcp/McpServers.ts"
import { isUserName } from "../../server/users/Access.ts"
import * as Tokens from "../../server/users/Tokens.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Config from "../Config.ts"
import * as Files from "../Files.ts"
import * as BesidePolicy from "../gateway/BesidePolicy.ts"
import * as GatewayConfig from "../gateway/GatewayConfig.ts"
import * as GatewayProblems from "../gateway/GatewayProblems.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import * as ServeAgentsConfig from "./ServeAgentsConfig.ts"

const optional = Schema.optionalKey

const Variable = Schema.String.check(
  Schema.isPattern(/^[A-Za-z_]\w*$/, { expected: "the name of an environment variable" })
)

/** What must not stand in a file. */
const FromEnvironment = Schema.Struct({
  env: Variable.annotate({ description: "The environment variable that contains it" })
})

const Expires = Schema.String.check(
  Schema.makeFilter((text) => Option.isSome(DateTime.make(text)), {
    expected: "a date such as \"2027-01-31\", or a time such as \"2027-01-31T12:00:00Z\""
  })
).annotate({ description: "When it expires; default: never" })

const Hash = Schema.String.check(
  Schema.makeFilter(Tokens.isHash, { expected: "the hash of a token, as `tool-executor token NAME` prints it" })
)

const Token = Schema.Union([
  Schema.Struct({
    hash: Hash.annotate({
      description: "The hash that `tool-executor token` prints; only the user knows the token itself"
    }),
    expires: optional(Expires)
  }),
  Schema.Struct({ ...FromEnvironment.fields, expires: optional(Expires) })
])

const UserName = Schema.String.check(
  Schema.makeFilter(isUserName, {
    expected: "1 to 100 of A-Z a-z 0-9 . _ @ : | + - , the first a letter or digit"
  })
)

const Whose = Schema.Array(Schema.NonEmptyString)

/** Schema of a user: their tokens, and what they may do. What is not said they may not. */
export const User = Schema.Struct({
  tokens: Schema.NonEmptyArray(Token),
  run: optional(Schema.Boolean).annotate({
    description: "Whether the user may submit calls, in their own sessions"
  }),
  approve: optional(Whose).annotate({
    description:
      "Users whose calls this user may approve; * means all others. To approve their own calls, list the user by name"
  }),
  records: optional(Whose).annotate({ description: "Users whose waves and journal this user may read; * means all" }),
  operate: optional(Schema.Boolean).annotate({ description: "Whether the user may read metrics and counts" }),
  roles: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Roles of the user, which clauses of the policy name"
  })
})

/** A URL that is a place to reach this server at, and nothing below it. */
const PublicUrl = Schema.String.check(Schema.makeFilter(
  (text) => {
    if (!URL.canParse(text)) return false
    const { hash, password, pathname, protocol, search, username } = new URL(text)
    return /^https?:$/.test(protocol) && `${hash}${password}${search}${username}` === "" && pathname === "/"
  },
  { expected: "a URL such as \"https://tools.example.com\", without a path" }
))

/** Schema of how and for whom the tools are served. */
export const Server = Schema.Struct({
  host: optional(Schema.NonEmptyString).annotate({ description: "Address to listen on; default 127.0.0.1" }),
  port: optional(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))).annotate({
    description: "Port to listen on; 0 takes a free port and prints it; default 7420"
  }),
  users: optional(Schema.Record(UserName, User)).annotate({ description: "Users of the server, by name" }),
  publicUrl: optional(PublicUrl).annotate({
    description:
      "URL under which users reach the server, if it differs from the address it listens on, such as behind a proxy"
  }),
  trustProxy: optional(Schema.Union([Schema.Boolean, AtLeastOne])).annotate({
    description: "Number of proxies in front of it whose X-Forwarded-* headers are trusted (true: 1); default false"
  }),
  tls: optional(Schema.Struct({
    cert: Schema.NonEmptyString.annotate({
      description: "PEM file with the certificate and its intermediates"
    }),
    key: Schema.NonEmptyString.annotate({ description: "PEM file with its key, outside the root of the workspace" })
  })).annotate({ description: "Serve HTTPS; paths are relative to this file" }),
  approvalTimeout: optional(Schema.Union([Span, Schema.Literal("unlimited")])).annotate({
    description: "Timeout of an approval request, after which it is denied; default 1 day"
  }),
  drain: optional(SpanOrNone).annotate({
    description: "How long a shutdown waits for running calls; default 20 seconds"
  }),
  sessionIdle: optional(Span).annotate({ description: "How long an unused session is kept; default 1 hour" }),
  turnIdle: optional(Span).annotate({
    description: "How long a turn without running calls stays open"
  }),
  limits: optional(Schema.Struct({
    bodyBytes: optional(AtLeastOne).annotate({ description: "Bytes of a request's body; default 4,000,000" }),
    sessions: optional(AtLeastOne).annotate({ description: "Maximum number of open sessions; default 1000" }),
    sessionsPerUser: optional(AtLeastOne).annotate({
      description: "Maximum number of open sessions per user; default 100"
    }),
    waves: optional(AtLeastOne).annotate({
      description: "Maximum number of open waves, including those with pending approvals; default 2000"
    }),
    wavesPerUser: optional(AtLeastOne).annotate({ description: "Maximum number of open waves per user; default 200" }),
    operations: optional(AtLeastOne).annotate({
      description: "Maximum number of open operations of agents, including queued and waiting ones; default 2000"
    }),
    operationsPerUser: optional(AtLeastOne).annotate({
      description: "Maximum number of open operations per user; default 200"
    }),
    messages: optional(AtLeastOne).annotate({
      description: "Maximum number of messages of an operation, including its prompt; default 1000"
    }),
    messageChars: optional(AtLeastOne).annotate({
      description: "Maximum number of characters of these messages; default 4,000,000"
    }),
    streams: optional(AtLeastOne).annotate({ description: "Maximum number of open streams; default 2000" }),
    streamsPerUser: optional(AtLeastOne).annotate({
      description: "Maximum number of open streams per user; default 600"
    }),
    requestsPerSecond: optional(AtLeastOne).annotate({
      description: "Maximum sustained requests per second and user; default 200"
    })
  })).annotate({ description: "Limits of the server" }),
  cluster: optional(Schema.Struct({
    host: optional(Schema.NonEmptyString).annotate({
      description: "Address to listen on for other runners; TOOL_EXECUTOR_CLUSTER_HOST overrides it; default 127.0.0.1"
    }),
    port: optional(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))).annotate({
      description:
        "Port to listen on for other runners; TOOL_EXECUTOR_CLUSTER_PORT overrides it; 0 takes a free port; " +
        "default 7421"
    }),
    advertise: optional(Schema.NonEmptyString).annotate({
      description: "Host that other runners reach this one at, if it differs from the address it listens on"
    }),
    shards: optional(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))).annotate({
      description:
        "Number of shards that sessions are spread over, at least ten times the runners. It must never change; " +
        "default 120"
    }),
    lease: optional(Span).annotate({
      description: "Time after the last sign of life of a runner when others have its sessions; default 9 seconds"
    })
  })).annotate({
    description: "How `--cluster` connects several servers; TOOL_EXECUTOR_CLUSTER_SECRET is their secret"
  }),
  webhook: optional(Schema.Struct({
    url: Schema.String.check(Schema.makeFilter(
      (text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
      { expected: "an http or https URL" }
    )).annotate({ description: "URL to notify of pending approval requests (POST); needs publicUrl for the link" }),
    secret: FromEnvironment.annotate({
      description: "Secret that signs the message: whsec_ and 24 to 64 bytes as base64"
    }),
    delay: optional(SpanOrNone).annotate({
      description: "How long a request must be pending before the notification; default 10 seconds"
    }),
    format: optional(Schema.Literals(["standard", "slack", "teams", "email"])).annotate({
      description: "What is sent: Standard Webhooks, or a message for Slack, Teams or a service that sends e-mail; " +
        "default standard"
    }),
    links: optional(Schema.Struct({
      people: Schema.NonEmptyArray(UserName).annotate({
        description: "Users who get a link that answers as them. Everybody who reads the notification can use it"
      }),
      validFor: optional(Span).annotate({
        description: "How long a link works, unless its request expires earlier; default 24 hours"
      })
    })).annotate({ description: "Links in the notification that answer without a login" })
  })).annotate({ description: "Webhook that is notified of pending approval requests" }),
  push: optional(Schema.Struct({
    subject: Schema.String.check(Schema.makeFilter(
      (text) => /^(?:mailto:.+@|https:\/\/)./.test(text) && URL.canParse(text),
      { expected: "mailto: and an address, or an https URL" }
    )).annotate({ description: "Whom push services may turn to: mailto: and an address, or an https URL" }),
    publicKey: Schema.NonEmptyString.annotate({ description: "The public key of `tool-executor push-keys`" }),
    privateKey: FromEnvironment.annotate({ description: "The private key of `tool-executor push-keys`" })
  })).annotate({
    description: "Notifications of devices that subscribed on the page (Web Push); needs publicUrl and the package " +
      "web-push. They have the delay of the webhook"
  })
})

/** Schema of the config file. */
export const ServeConfig = Schema.Struct({
  $schema: optional(Schema.String),
  workspace: optional(Schema.Struct({
    root: Schema.NonEmptyString.annotate({
      description:
        "Folder that the tools work in, relative to this file. run_command is not confined to it without a sandbox"
    }),
    environment: Config.Config.fields.environment,
    fetch: Config.Config.fields.fetch,
    sandbox: Config.Config.fields.sandbox
  })).annotate({ description: "Enables the tools of `run`: files, commands and fetch_url" }),
  mcpServers: optional(McpServers.McpServers).annotate({
    description: "MCP servers, by name; ${NAME} in their texts is an environment variable"
  }),
  ...fields,
  ...BesidePolicy.fields,
  policy: fields.policy.annotate({ description: "What may run" }),
  tools: optional(Schema.Record(Schema.String, Tool)).annotate({
    description: "Settings of single tools, by the names that a model sees"
  }),
  agents: optional(ServeAgentsConfig.Config).annotate({ description: "Agents that clients may start, by name" }),
  server: optional(Server).annotate({ description: "Where the server listens, its users and limits" })
})

/** What a config file holds. */
export type ServeConfig = typeof ServeConfig.Type

/** The defaults of the `server` part. */
export const defaults = {
  host: "127.0.0.1",
  port: 7420,
  drain: "20 seconds",
  webhookDelay: "10 seconds",
  clusterHost: "127.0.0.1",
  clusterPort: 7421,
  clusterLease: "9 seconds"
} as const

/** Names of the tools that are there without MCP servers, those of sub-agents included. */
export const ownTools = (
  { agents = {}, workspace }: Pick<ServeConfig, "agents" | "workspace">
): ReadonlyArray<string> => [
  ...workspace === undefined ? [] : Config.toolNames,
  ...Object.keys(ArtifactTools.toolkit.tools),
  ...ServeAgentsConfig.toolNames(agents)
]

/**
 * Reads a config file, with environment variables put into what is about MCP servers; fails with exit code 2 and every
 * mistake, those that `problemsIn` finds in its `server` included.
 */
export const read = Effect.fnUntraced(function*(
  path: string,
  problemsIn: (server: unknown) => ReadonlyArray<Problem>
) {
  const input = yield* Files.readJson(path)
  const ofPlace = problemsIn(Predicate.hasProperty(input, "server") ? input.server : undefined)
  const withPlace = <A>(decode: (input: unknown) => Effect.Effect<A, ConfigurationError>) => (given: unknown) =>
    Effect.mapError(
      decode(given),
      ({ problems, subject }) => new ConfigurationError({ subject, problems: [...problems, ...ofPlace] })
    )
  if (GatewayConfig.hasServers(input)) {
    const decode = withPlace(decodeWith(path, () => undefined))
    return yield* GatewayConfig.decodeServers(input, path, decode, (config) => [
      ...GatewayProblems.ofNames({ ...config, mcpServers: config.mcpServers ?? {} }, ownTools(config)),
      ...ServeAgentsConfig.problemsOf(config.agents ?? {}, undefined),
      ...ofUsers(config),
      ...ofPlace
    ])
  }
  const decode = withPlace(decodeWith(path, toolsOf))
  const config = yield* Effect.mapError(decode(input), (error) => wrong(describe(error)))
  const problems = [
    // rules and policy have been compared with the tools that are there
    ...GatewayProblems.ofNames({ tools: config.tools ?? {}, mcpServers: {} }, ownTools(config)),
    ...ServeAgentsConfig.problemsOf(config.agents ?? {}, ownTools(config)),
    ...ofUsers(config),
    ...ofPlace
  ]
  return problems.length === 0 ? config : yield* wrong(describe({ subject: path, problems }))
})

/** Gives the options of the executors. */
export const toOptions = (config: ServeConfig, above: Pick<PolicyTiers.Above, "tiers">): LocalExecutor.Options => {
  const {
    $schema: _,
    agents: __,
    mcpServers: ___,
    policy,
    reviewer: ____,
    server: _____,
    shadow: ______,
    workspace: _______,
    ...same
  } = config
  // durations were checked when the file was decoded
  return { ...same, policy: PolicyTiers.under(above, policy) } as LocalExecutor.Options
}

const decodeWith = (path: string, toolsOf: Parameters<typeof PolicyFile.decode>[2]) => {
  const decode = PolicyFile.decode(ServeConfig, path, toolsOf)
  return (input: unknown) =>
    Effect.mapError(
      decode(input),
      ({ problems, subject }) => new ConfigurationError({ subject, problems: withoutTokens(problems) })
    )
}

/** One problem for each token that is wrong. What stands in place of a hash may be the token itself: it is not repeated. */
const withoutTokens = (problems: ReadonlyArray<Problem>): ReadonlyArray<Problem> => {
  const told = new Set<string>()
  return problems.flatMap((it) => {
    const [at, key] = /^server\.users\..*\.tokens\[\d+\](?:\.(hash|env)$)?/.exec(it.path) ?? []
    // a union says of each of its forms what is wrong with it
    if (at === undefined || (key === undefined && at !== it.path)) return [it]
    const token = at.replace(/\.(?:hash|env)$/, "")
    if (told.has(token)) return []
    told.add(token)
    return [{
      path: token,
      problem: "it is not a valid token entry",
      expected: "{ hash } as `tool-executor token NAME` prints it, or { env }"
    }]
  })
}

const artifactTools = Object.values(ArtifactTools.toolkit.tools).map((tool): [string, RuleSet.RuleTool] => [
  tool.name,
  { jsonSchema: ToolHandlers.jsonSchemaOf(tool) }
])

const isConfig = Schema.is(ServeAgentsConfig.Config)

const toolsOf = (input: unknown) => {
  const hasWorkspace = typeof input === "object" && input !== null && "workspace" in input
  const agents = Predicate.hasProperty(input, "agents") && isConfig(input.agents) ? input.agents : {}
  return new Map<string, RuleSet.RuleTool>([
    ...hasWorkspace ? Config.tools : [],
    ...artifactTools,
    ...ServeAgentsConfig.toolNames(agents).map((name) => [name, {}] as const)
  ])
}

/** Unknown user names, and tokens that two users share. */
const ofUsers = ({ server: { users = {}, webhook } = {} }: ServeConfig): ReadonlyArray<Problem> => {
  const names = Object.keys(users)
  const owners = new Map<string, string>()
  const unlinked = (webhook?.links?.people ?? []).flatMap((person, index) => {
    const at = `server.webhook.links.people[${index}]`
    const user = users[person]
    if (user === undefined) {
      const expected = names.length === 0 ? "a user of server.users" : `one of ${names.join(", ")}`
      return [{ path: at, problem: `there is no user ${JSON.stringify(person)}`, expected }]
    }
    return (user.approve ?? []).length > 0 ? [] : [{
      path: at,
      problem: `${JSON.stringify(person)} may approve nothing`,
      expected: "a user with approve"
    }]
  })
  const ofEach = Object.entries(users).flatMap(([name, user]) => [
    ...(["approve", "records"] as const).flatMap((list) =>
      (user[list] ?? []).flatMap((listed, index) =>
        listed === "*" || names.includes(listed) ? [] : [{
          path: `server.users.${name}.${list}[${index}]`,
          problem: `there is no user ${JSON.stringify(listed)}`,
          expected: `* or one of ${names.join(", ")}`
        }]
      )
    ),
    ...user.tokens.flatMap((token, index) => {
      const key = "hash" in token ? token.hash : `$${token.env}`
      const owner = owners.get(key)
      owners.set(key, name)
      return owner === undefined ? [] : [{
        path: `server.users.${name}.tokens[${index}]`,
        problem: owner === name ? "it is listed twice" : `it also belongs to ${JSON.stringify(owner)}`,
        expected: "a different token for each user"
      }]
    })
  ])
  return [...ofEach, ...unlinked]
}
