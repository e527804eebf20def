/** `tool-executor mcp`: an MCP server in front, MCP servers behind, and the gates of the executor between them. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { escape } from "../../internal/escape.ts"
import { describe, inLines, wrong } from "../CliFailure.ts"
import * as Flags from "../Flags.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

const input = {
  config: Flag.String("config").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      "JSON file with mcpServers, rules, policy and limits; `tool-executor schema gateway` prints its JSON Schema"
    )
  ),
  http: Flags.port("http", 1, "Serve Streamable HTTP on this port at /mcp, instead of standard input and output"),
  host: Flag.String("host").pipe(
    Flag.withMetavar("HOST"),
    Flag.withDescription("Address to listen on for HTTP; default 127.0.0.1. There is no authentication"),
    Flag.withDefault("127.0.0.1")
  ),
  approve: Flag.Literals("approve", ["ask", "page", "deny", "auto"]).pipe(
    Flag.withDescription(
      "How approval requests are answered. ask (default): through the client (elicitation), denied if the client cannot; " +
        "page: on a local web page if the client cannot; deny: denied; auto: all approved"
    ),
    Flag.withDefault("ask")
  ),
  pagePort: Flag.Int("page-port").pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription("Port of the page (--approve page) on 127.0.0.1; default a free port, which is printed"),
    Flag.filter((port) => port >= 0 && port <= 65_535, () => "a port, 0 to 65535"),
    Flag.withDefault(0)
  ),
  journal: JournalAt.flag,
  list: Flags.toggle("list", "Print the tools as a client sees them, and exit")
}

export const command = Command.make(
  "mcp",
  input,
  Effect.fnUntraced(function*({ approve, config: path, host, http, journal, list, pagePort }) {
    const config = { ...yield* GatewayConfig.read(path), above: yield* PolicyTiers.above }
    yield* PolicyTiers.warnLocked(GatewayConfig.toOptions(config).policy)
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
        ServeError: (error) => Effect.fail(wrong(`Cannot listen for HTTP (${escape(String(error.cause))}).`))
      })
    )
  })
).pipe(
  Command.withShortDescription("Serve the tools of MCP servers, behind rules, permissions and limits"),
  Command.withDescription(
    "Serves the tools of MCP servers as one MCP server, on standard input and output or over HTTP. Every call goes " +
      "through the rules, the policy and the limits of the config. The hints of a server about its tools count only if " +
      "the config trusts it. Without trust, every tool counts as one that changes things and needs an approval. Exit " +
      "codes: 0 the client disconnected, 2 invalid usage or config, or unreachable server, 130 it was interrupted."
  ),
  Command.withExamples([
    { command: "tool-executor mcp --config gateway.json", description: "What an editor starts" },
    { command: "tool-executor mcp --config gateway.json --list", description: "See the names for rules and policy" },
    { command: "tool-executor mcp --config gateway.json --http 8080", description: "Serve http://127.0.0.1:8080/mcp" }
  ])
)

/** The gateway, which other commands do without. */
const load = Effect.promise(() => import("./Gateway.ts"))
