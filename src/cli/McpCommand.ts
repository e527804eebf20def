/** `tool-executor mcp`: an MCP server in front, MCP servers behind, and the gates of the executor between them. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { escape } from "../internal/escape.ts"
import { describe, inLines, wrong } from "./CliFailure.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import * as GatewayProblems from "./GatewayProblems.ts"
import * as JournalAt from "./JournalAt.ts"

const input = {
  config: Flag.String("config").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      "JSON file with mcpServers, rules, policy and limits; `tool-executor schema gateway` prints its JSON Schema"
    )
  ),
  http: Flag.Int("http").pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription("Serve Streamable HTTP on this port at /mcp, instead of standard input and output"),
    Flag.filter((port) => port >= 1 && port <= 65_535, () => "a port, 1 to 65535"),
    Flag.optional
  ),
  host: Flag.String("host").pipe(
    Flag.withMetavar("HOST"),
    Flag.withDescription("Address to serve HTTP on; default 127.0.0.1. There is no authentication"),
    Flag.withDefault("127.0.0.1")
  ),
  approve: Flag.Literals("approve", ["ask", "page", "deny", "auto"]).pipe(
    Flag.withDescription(
      "What happens to calls that a person has to allow: ask through the client (elicitation), the default, and deny " +
        "where it cannot; page asks on a page of this machine where the client cannot; deny; auto allows them all"
    ),
    Flag.withDefault("ask")
  ),
  pagePort: Flag.Int("page-port").pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription("Port of the page (--approve page), on 127.0.0.1; default any that is free, which is printed"),
    Flag.filter((port) => port >= 0 && port <= 65_535, () => "a port, 0 to 65535"),
    Flag.withDefault(0)
  ),
  journal: JournalAt.flag,
  list: Flag.Boolean("list").pipe(
    Flag.withDescription("Print the tools as a client would see them, and end"),
    Flag.withDefault(false)
  )
}

/** The command. */
export const command = Command.make(
  "mcp",
  input,
  Effect.fnUntraced(function*({ approve, config: path, host, http, journal, list, pagePort }) {
    const config = yield* GatewayConfig.read(path)
    const gateway = yield* load
    const program = Effect.gen(function*() {
      if (list) yield* gateway.printTools(config)
      else {
        const record = Option.match(journal, { onNone: () => Layer.empty, onSome: JournalAt.layerOf })
        yield* gateway.serve(config, approve, { host, port: Option.getOrUndefined(http), pagePort }, record)
      }
    })
    yield* program.pipe(
      Effect.catchTags({
        ConfigurationError: (error) => Effect.fail(wrong(describe(GatewayProblems.inFile(path, error)))),
        McpServerError: (error) => Effect.fail(wrong(inLines(error.message))),
        ServeError: (error) => Effect.fail(wrong(`HTTP cannot be served there (${escape(String(error.cause))}).`))
      })
    )
  })
).pipe(
  Command.withShortDescription("Serve the tools of MCP servers, behind rules, permissions and limits"),
  Command.withDescription(
    "Serves the tools of MCP servers as one MCP server, on standard input and output or over HTTP. Every call goes " +
      "through the rules, the policy and the limits of the config. What a server says about its tools is believed only " +
      "where the config says so: else every tool counts as one that changes things, and is asked about. Standard error " +
      "shows what the servers write to theirs. Exit code: 0 the client is gone, 2 bad usage or config, or a server that " +
      "cannot be reached, 130 it was told to end."
  ),
  Command.withExamples([
    { command: "tool-executor mcp --config gateway.json", description: "What an editor starts" },
    { command: "tool-executor mcp --config gateway.json --list", description: "See the names for rules and policy" },
    { command: "tool-executor mcp --config gateway.json --http 8080", description: "Serve http://127.0.0.1:8080/mcp" }
  ])
)

// Utilities

/** The gateway, which other commands do without. */
const load = Effect.promise(() => import("./Gateway.ts"))
