/**
 * MCP servers behind the executor as data: how they are reached, and what of them is trusted. The shape is that of
 * `mcpServers` in editors, with additional fields.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { type Problem, validateStrict } from "../core/vocabulary/ConfigurationError.ts"
import { escapeLines } from "../internal/escape.ts"
import * as Texts from "../internal/secrets/index.ts"
import { OfProgram } from "../tools/sandbox/SandboxOptions.ts"

const optional = Schema.optionalKey

const Patterns = Schema.Array(Schema.NonEmptyString)

const Span = Schema.String.check(
  Schema.makeFilter(
    (text) => Option.exists(Duration.fromInput(text as Duration.Input), (it) => Duration.toMillis(it) > 0),
    { expected: "a duration above zero, such as \"30 seconds\"" }
  )
).annotate({ description: "A duration such as \"30 seconds\" or \"5 minutes\"" })

const Strings = Schema.Record(Schema.String, Schema.String)

/** As HTTP takes it (RFC 9110, 5.5): no line break, no NUL, nothing beyond Latin-1. */
const HeaderValue = Schema.String.check(Schema.isPattern(/^[\t\x20-\x7e\x80-\xff]*$/, {
  expected: "the value of a header, without line breaks and other control characters"
}))

const name = /^[a-zA-Z0-9_-]{1,30}$/

const expected = "1 to 30 of a-z A-Z 0-9 _ -"

const shared = {
  prefix: optional(Schema.String.check(Schema.isPattern(/^[a-zA-Z0-9_-]{0,32}$/, {
    expected: "at most 32 of a-z A-Z 0-9 _ -"
  }))).annotate({ description: "Prefix of the names of its tools; default the name of the server and __" }),
  trust: optional(Schema.Boolean).annotate({
    description: "Whether its hints about its tools (readOnlyHint, idempotentHint) are trusted; default false"
  }),
  readOnly: optional(Patterns).annotate({
    description: "Tools that count as read-only, whatever the server declares, such as \"read_*\""
  }),
  openWorld: optional(Schema.Boolean).annotate({
    description:
      "Whether its tools reach other systems, whatever the server declares: then read-only tools also need an approval"
  }),
  invisible: optional(Schema.Literals(["show", "remove", "refuse"])).annotate({
    description:
      "What becomes of invisible text in its tools' descriptions and results: shown, removed, or the tool or result " +
      "left out; default: removed from descriptions, and for results as the settings of the executor say"
  }),
  only: optional(Patterns).annotate({ description: "Tools to register; default all" }),
  except: optional(Patterns).annotate({ description: "Tools to omit" }),
  disabled: optional(Schema.Boolean).annotate({ description: "Whether to skip this server" }),
  optional: optional(Schema.Boolean).annotate({
    description: "Whether the other servers start without it if it is unreachable; connecting is retried; default false"
  }),
  startTimeout: optional(Span).annotate({
    description: "Timeout for connecting, and again for listing its tools; default 30 seconds"
  })
}

/** Schema of a server that runs as a child process and speaks over standard input and output. */
export const Stdio = Schema.Struct({
  type: optional(Schema.Literal("stdio")),
  command: Schema.NonEmptyString,
  args: optional(Schema.Array(Schema.String)),
  env: optional(Strings).annotate({
    description:
      "Environment variables in addition to HOME, PATH and the like; no other variable of this process is passed on"
  }),
  cwd: optional(Schema.NonEmptyString),
  sandbox: optional(Schema.Union([Schema.Boolean, OfProgram])).annotate({
    description:
      "Runs the program in a sandbox: it sees programs, its cwd and what is listed, changes what is listed, and reaches " +
      "no host that is not listed; true for the defaults. Default false"
  }),
  ...shared
})

/** A server that runs as a child process. */
export type Stdio = typeof Stdio.Type

/** Schema of a server that is reached over Streamable HTTP. */
export const Http = Schema.Struct({
  type: optional(Schema.Literal("http")),
  url: Schema.String.check(Schema.makeFilter(
    (text) => {
      if (!URL.canParse(text)) return false
      const { password, protocol, username } = new URL(text)
      return /^https?:$/.test(protocol) && username === "" && password === ""
    },
    { expected: "an http or https URL without user and password, which go into headers" }
  )),
  headers: optional(Schema.Record(Schema.String, HeaderValue)),
  ...shared
})

/** A server that is reached over Streamable HTTP. */
export type Http = typeof Http.Type

/** Schema of servers by name. The name is the host's: tools are called after it. */
export const McpServers = Schema.Record(
  Schema.String.check(Schema.isPattern(name, { expected })),
  Schema.Union([Stdio, Http])
)

/** A server behind the executor. */
export type McpServer = Stdio | Http

/** Servers by name. */
export type McpServers = typeof McpServers.Type

/** Error of a server that cannot be reached or spoken to. */
export class McpServerError extends Schema.TaggedError<McpServerError>("effect-tool-executor/mcp/McpServerError")(
  "McpServerError",
  {
    server: Schema.String,
    /**
     * `NotStarted`: its program does not start, or its address refuses connections; `NotAnswering`: it timed out;
     * `Protocol`: it sent something invalid; `Closed`: the connection is lost.
     */
    reason: Schema.Literals(["NotStarted", "NotAnswering", "Protocol", "Closed"]),
    problem: Schema.String
  }
) {
  override get message(): string {
    // a server's own words may be in it
    return `MCP server "${this.server}": ${escapeLines(this.problem)}`
  }
}

/** Creates the error of a server. The values of its headers and variables may be secrets, and are not repeated. */
export const failure = (
  name: string,
  server: McpServer,
  reason: McpServerError["reason"],
  problem: string
): McpServerError => {
  const values = Object.values(("url" in server ? server.headers : server.env) ?? {})
  return new McpServerError({ server: name, reason, problem: Texts.without(problem, values) })
}

/**
 * Gives every mistake in servers that a person wrote, each with its path below `at`. A server is judged by what it
 * seems to be: a program or an address. Two servers whose prefixes overlap could have tools of one name, so that what
 * is allowed to one is taken by the other: they are refused, be they up or not.
 */
export const problemsOf = (servers: unknown, at: string): ReadonlyArray<Problem> => {
  const all = validateStrict(McpServers, servers, at)
  if (all.length === 0) return overlaps(servers as McpServers, at)
  if (!Predicate.isObject(servers)) return all
  return Object.entries(servers).flatMap(([key, server]) => [
    ...name.test(key)
      ? []
      : [{ path: at, problem: `${JSON.stringify(key)} cannot be the name of a server`, expected }],
    ...problemsOfOne(server, `${at}.${key}`)
  ])
}

const problemsOfOne = (server: unknown, path: string): ReadonlyArray<Problem> => {
  const isHttp = Predicate.hasProperty(server, "url")
  const isStdio = Predicate.hasProperty(server, "command")
  const expected = "command, of a program to start, or url, of a server to reach"
  if (isHttp && isStdio) return [{ path, problem: "it has a command and a url", expected: `${expected}; not both` }]
  if (Predicate.isObject(server) && !isHttp && !isStdio) {
    return [{ path, problem: "it has no command and no url", expected }]
  }
  const problems = isHttp ? validateStrict(Http, server, path) : validateStrict(Stdio, server, path)
  // what a header or a variable has may be a secret
  return problems.map((it) =>
    it.path.startsWith(`${path}.headers`) || it.path.startsWith(`${path}.env`)
      ? { ...it, problem: it.problem.startsWith("it is ") ? "its value is not valid" : it.problem }
      : it
  )
}

/** What the names of a server's tools begin with. */
export const prefixOf = (name: string, server: McpServer): string => server.prefix ?? `${name}__`

/** Gives the server that a name belongs to, of those whose prefix it begins with: the one with the longest. */
export const ownerOf = <S extends { readonly prefix: string }>(
  servers: ReadonlyArray<S>,
  name: string
): S | undefined =>
  servers.reduce<S | undefined>(
    (best, it) => name.startsWith(it.prefix) && it.prefix.length > (best?.prefix.length ?? -1) ? it : best,
    undefined
  )

/** Tells whether a pattern with a wildcard may match a tool with one of these prefixes. */
export const mayMatchPrefix = (pattern: string, prefixes: ReadonlyArray<string>): boolean => {
  const wild = pattern.search(/[*?]/)
  return wild !== -1 && prefixes.some((it) => it.startsWith(pattern.slice(0, wild)))
}

/** An empty prefix overlaps with no other: tools of the server whose names collide are omitted. */
const isOverlapping = (a: string, b: string): boolean =>
  a === b || (a !== "" && b !== "" && (a.startsWith(b) || b.startsWith(a)))

const overlaps = (servers: McpServers, at: string): ReadonlyArray<Problem> => {
  const all = Object.entries(servers).flatMap(([name, it]) =>
    it.disabled === true ? [] : [{ name, prefix: prefixOf(name, it) }]
  )
  return all.flatMap(({ name, prefix }, index) => {
    const other = all.slice(0, index).find((it) => isOverlapping(it.prefix, prefix))
    if (other === undefined) return []
    const problem = `its tools begin with ${JSON.stringify(prefix)} and those of "${other.name}" with ${
      JSON.stringify(other.prefix)
    }: one could take the names of the other`
    return [{ path: `${at}.${name}.prefix`, problem, expected: "prefixes such that none begins with another" }]
  })
}
