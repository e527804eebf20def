/**
 * The config file of `tool-executor serve`: the tools, rules, policy and limits as the
 * other commands have them, and how and for whom they are served.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as LocalExecutor from "../core/assembly/LocalExecutor.ts"
import { AtLeastOne, fields, Span, SpanOrNone, Tool } from "../core/gates/ConfigFields.ts"
import * as PolicyFile from "../core/gates/PolicyFile.ts"
import type * as RuleSet from "../core/rules/RuleSet.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import * as McpServers from "../mcp/McpServers.ts"
import { isUserName } from "../server/Access.ts"
import * as Tokens from "../server/Tokens.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"
import { describe, wrong } from "./CliFailure.ts"
import * as Config from "./Config.ts"
import * as Files from "./Files.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

const optional = Schema.optionalKey

const Variable = Schema.String.check(
  Schema.isPattern(/^[A-Za-z_]\w*$/, { expected: "the name of an environment variable" })
)

/** What must not stand in a file. */
const FromEnvironment = Schema.Struct({
  env: Variable.annotate({ description: "The environment variable that has it" })
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
      description: "What `tool-executor token` prints; the token itself belongs to its user alone"
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
  run: optional(Schema.Boolean).annotate({ description: "May hand calls over, in sessions of their own" }),
  approve: optional(Whose).annotate({
    description: "Users whose questions they may answer; * is everybody's, their own only if they are named, too"
  }),
  records: optional(Whose).annotate({ description: "Users whose waves and journal they may read; * is everybody's" }),
  operate: optional(Schema.Boolean).annotate({ description: "May read metrics and counts" })
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
  host: optional(Schema.NonEmptyString).annotate({ description: "Address to serve on; default 127.0.0.1" }),
  port: optional(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))).annotate({
    description: "Port to serve on; 0 is any that is free, and is printed; default 7420"
  }),
  users: optional(Schema.Record(UserName, User)).annotate({ description: "Who may use it, by name" }),
  publicUrl: optional(PublicUrl).annotate({
    description: "Where users reach it, if that is not where it serves: behind a proxy, by a name"
  }),
  trustProxy: optional(Schema.Union([Schema.Boolean, AtLeastOne])).annotate({
    description: "Whether a proxy stands before it, or how many, whose X-Forwarded-* are believed; default false"
  }),
  tls: optional(Schema.Struct({
    cert: Schema.NonEmptyString.annotate({
      description: "PEM file with the certificate, and those between it and the root"
    }),
    key: Schema.NonEmptyString.annotate({ description: "PEM file with its key, outside the root of the workspace" })
  })).annotate({ description: "Serve HTTPS; paths are relative to this file" }),
  approvalTimeout: optional(Schema.Union([Span, Schema.Literal("unlimited")])).annotate({
    description: "How long a question waits for an answer; silence is a no; default 1 day"
  }),
  drain: optional(SpanOrNone).annotate({
    description: "How long calls that run have to come to their end when it is told to stop; default 20 seconds"
  }),
  sessionIdle: optional(Span).annotate({ description: "How long a session stays that nobody uses; default 1 hour" }),
  turnIdle: optional(Span).annotate({
    description: "How long a turn is held open in which nothing runs"
  }),
  limits: optional(Schema.Struct({
    bodyBytes: optional(AtLeastOne).annotate({ description: "Bytes of a request's body; default 4,000,000" }),
    sessions: optional(AtLeastOne).annotate({ description: "Sessions at once; default 1000" }),
    sessionsPerUser: optional(AtLeastOne).annotate({ description: "Sessions of one user at once; default 100" }),
    waves: optional(AtLeastOne).annotate({
      description: "Waves at once, those that wait for people included; default 2000"
    }),
    wavesPerUser: optional(AtLeastOne).annotate({ description: "Waves of one user at once; default 200" }),
    streams: optional(AtLeastOne).annotate({ description: "Streams at once; default 2000" }),
    streamsPerUser: optional(AtLeastOne).annotate({ description: "Streams of one user at once; default 600" }),
    requestsPerSecond: optional(AtLeastOne).annotate({
      description: "Requests of one user in a second, in the long run; default 200"
    })
  })).annotate({ description: "How much of anything there may be" }),
  webhook: optional(Schema.Struct({
    url: Schema.String.check(Schema.makeFilter(
      (text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
      { expected: "an http or https URL" }
    )).annotate({ description: "Where to POST that a question waits; needs publicUrl, for the link to it" }),
    secret: FromEnvironment.annotate({
      description: "What the message is signed with: whsec_ and 24 to 64 bytes as base64"
    }),
    delay: optional(SpanOrNone).annotate({
      description: "How long a question has to wait before it is told of; default 10 seconds"
    })
  })).annotate({ description: "Who is told that a question waits" })
})

/** Schema of the config file. */
export const ServeConfig = Schema.Struct({
  $schema: optional(Schema.String),
  workspace: optional(Schema.Struct({
    root: Schema.NonEmptyString.annotate({
      description: "Folder that the tools work in, relative to this file. run_command is not confined to it"
    }),
    environment: Config.Config.fields.environment,
    fetch: Config.Config.fields.fetch
  })).annotate({ description: "The tools of `run`: files, commands, and fetching; without it they are not there" }),
  mcpServers: optional(McpServers.McpServers).annotate({
    description: "MCP servers, by name; ${NAME} in their texts is an environment variable"
  }),
  ...fields,
  policy: fields.policy.annotate({ description: "What may run" }),
  tools: optional(Schema.Record(Schema.String, Tool)).annotate({
    description: "What holds for single tools, by their names as a model sees them"
  }),
  server: optional(Server).annotate({ description: "How and for whom it is served" })
})

/** What a config file holds. */
export type ServeConfig = typeof ServeConfig.Type

/** The defaults of the `server` part. */
export const defaults = { host: "127.0.0.1", port: 7420, webhookDelay: "10 seconds" } as const

/** Names of the tools that are there without MCP servers. */
export const ownTools = ({ workspace }: Pick<ServeConfig, "workspace">): ReadonlyArray<string> => [
  ...workspace === undefined ? [] : Config.toolNames,
  ...Object.keys(ArtifactTools.toolkit.tools)
]

/**
 * Reads a config file, with environment variables put into what is about MCP servers; fails
 * with exit code 2 and every mistake, those that `problemsIn` finds in its `server` included.
 */
export const read = Effect.fnUntraced(function*(
  path: string,
  problemsIn: (server: unknown) => ReadonlyArray<Problem>
) {
  const input = yield* Effect.flatMap(Files.read(path), (text) => Files.parseJson(text, path))
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
      ...ofUsers(config),
      ...ofPlace
    ])
  }
  const decode = withPlace(decodeWith(path, toolsOf))
  const config = yield* Effect.mapError(decode(input), (error) => wrong(describe(error)))
  const problems = [
    // rules and policy have been compared with the tools that are there
    ...GatewayProblems.ofNames({ tools: config.tools ?? {}, mcpServers: {} }, ownTools(config)),
    ...ofUsers(config),
    ...ofPlace
  ]
  return problems.length === 0 ? config : yield* wrong(describe({ subject: path, problems }))
})

/** Gives the options of the executors. */
export const toOptions = (config: ServeConfig): LocalExecutor.Options => {
  const { $schema: _, mcpServers: __, server: ___, workspace: ____, ...same } = config
  // durations were checked when the file was decoded
  return same as LocalExecutor.Options
}

// Utilities

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
      problem: "it is not a token as the config has them",
      expected: "{ hash } as `tool-executor token NAME` prints it, or { env }"
    }]
  })
}

const artifactTools = Object.values(ArtifactTools.toolkit.tools).map((tool): [string, RuleSet.RuleTool] => [
  tool.name,
  { jsonSchema: ToolHandlers.jsonSchemaOf(tool) }
])

const toolsOf = (input: unknown) => {
  const hasWorkspace = typeof input === "object" && input !== null && "workspace" in input
  return new Map([...hasWorkspace ? Config.tools : [], ...artifactTools])
}

/** Names of users that nobody has, and tokens that are two users'. */
const ofUsers = ({ server: { users = {} } = {} }: ServeConfig): ReadonlyArray<Problem> => {
  const names = Object.keys(users)
  const owners = new Map<string, string>()
  return Object.entries(users).flatMap(([name, user]) => [
    ...(["approve", "records"] as const).flatMap((list) =>
      (user[list] ?? []).flatMap((whose, index) =>
        whose === "*" || names.includes(whose) ? [] : [{
          path: `server.users.${name}.${list}[${index}]`,
          problem: `there is no user ${JSON.stringify(whose)}`,
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
        problem: owner === name ? "it is there twice" : `it is ${JSON.stringify(owner)}'s, too`,
        expected: "a token of its own for each user"
      }]
    })
  ])
}
