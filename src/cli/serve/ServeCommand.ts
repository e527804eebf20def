/**
 * `tool-executor serve`: the tools of a config for programs and people elsewhere, over HTTP, with a page for approvals.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { wrong } from "../CliFailure.ts"
import * as Flags from "../Flags.ts"
import { variable } from "../Variables.ts"
import * as ServeAddress from "./ServeAddress.ts"
import * as ServeConfig from "./ServeConfig.ts"

const input = {
  config: Flag.String("config").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      "JSON file with workspace, mcpServers, rules, policy, limits and server; `tool-executor schema serve` prints its " +
        "JSON Schema"
    )
  ),
  host: Flags.text("host", "HOST", "Address to listen on, overrides the config; default 127.0.0.1"),
  port: Flags.port(
    "port",
    0,
    `Port to listen on, overrides the config; 0 takes a free port; default ${ServeConfig.defaults.port}`
  ),
  data: Flags.text(
    "data",
    "DIR",
    "Folder for stored data (SQLite), outside the root of the workspace; one server at a time. Default: a folder per " +
      "config in $XDG_STATE_HOME/tool-executor, or ~/.local/state/tool-executor"
  ),
  postgres: Flag.Redacted("postgres").pipe(
    Flag.withMetavar("URL"),
    Flag.withDescription(
      "Store data in PostgreSQL instead. Prefer the environment variable TOOL_EXECUTOR_POSTGRES, since every user of this " +
        "machine can see command-line arguments. Behind PgBouncer in transaction mode: postgres://…?pgbouncer=true"
    ),
    Flag.optional
  ),
  cluster: Flags.toggle(
    "cluster",
    "Serve as one of several servers over the same PostgreSQL: each answers for all sessions. Beyond this machine they " +
      "need a shared secret in TOOL_EXECUTOR_CLUSTER_SECRET"
  )
}

export const command = Command.make(
  "serve",
  input,
  Effect.fnUntraced(function*({ cluster, config: path, data, host, port, postgres }) {
    const inEnvironment = yield* variable("TOOL_EXECUTOR_POSTGRES")
    const url = Option.getOrElse(postgres, () => inEnvironment === undefined ? undefined : Redacted.make(inEnvironment))
    if (url !== undefined && Option.isSome(data)) {
      return yield* wrong(
        "Records can be stored in a folder (--data) or in PostgreSQL (--postgres, TOOL_EXECUTOR_POSTGRES), but not in both."
      )
    }
    const place = { host: Option.getOrUndefined(host), port: Option.getOrUndefined(port) }
    const config = yield* ServeConfig.read(path, (server) => ServeAddress.problemsOf(server, place))
    // what it is made of is only loaded where it is used
    const { serve } = yield* Effect.promise(() => import("./Serve.ts"))
    return yield* serve({
      path,
      config,
      ...place,
      data: Option.getOrUndefined(data),
      isClustered: cluster,
      postgres: url
    })
  })
).pipe(
  Command.withShortDescription("Serve tools over HTTP, with a page for approvals"),
  Command.withDescription(
    "Serves the tools of a workspace and of MCP servers over HTTP: clients send messages of models and get results, " +
      "under the rules, the policy and the limits of the config. The page at / shows approvals, waves and records. Every " +
      "user needs a token (`tool-executor token`). On SIGTERM or Ctrl-C it accepts no new work, waits for running calls " +
      "and resumes the rest at its next start. A second signal stops it immediately. Exit codes: 0 after SIGTERM, 2 " +
      "invalid usage or config, or the port is in use, 130 it was interrupted or signalled twice."
  ),
  Command.withExamples([
    { command: "tool-executor serve --config server.json", description: "Serve http://127.0.0.1:7420/" },
    {
      command: "tool-executor serve --config server.json --port 0",
      description: "Listen on a free port, which is printed"
    },
    {
      command: "tool-executor serve --config server.json --cluster",
      description: "Serve as one of several servers over the database in TOOL_EXECUTOR_POSTGRES"
    }
  ])
)
