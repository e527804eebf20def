/**
 * `tool-executor serve`: the tools of a config for programs and people elsewhere, over HTTP,
 * with a page where questions are answered.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as EffectConfig from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { wrong } from "./CliFailure.ts"
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
  host: Flag.String("host").pipe(
    Flag.withMetavar("HOST"),
    Flag.withDescription("Address to serve on, instead of the config's; default 127.0.0.1"),
    Flag.optional
  ),
  port: Flag.Int("port").pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription(
      `Port to serve on, instead of the config's; 0 is any that is free; default ${ServeConfig.defaults.port}`
    ),
    Flag.filter((port) => port >= 0 && port <= 65_535, () => "a port, 0 to 65535"),
    Flag.optional
  ),
  data: Flag.String("data").pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription(
      "Folder for what is kept (SQLite), outside the root of the workspace; one server at a time. Default: a folder per " +
        "config in $XDG_STATE_HOME/tool-executor, or ~/.local/state/tool-executor"
    ),
    Flag.optional
  ),
  postgres: Flag.Redacted("postgres").pipe(
    Flag.withMetavar("URL"),
    Flag.withDescription(
      "Keep it in PostgreSQL instead. Better in the environment, as TOOL_EXECUTOR_POSTGRES: every user of this machine " +
        "sees the arguments of a program. Behind PgBouncer in transaction mode: postgres://…?pgbouncer=true"
    ),
    Flag.optional
  )
}

/** The command. */
export const command = Command.make(
  "serve",
  input,
  Effect.fnUntraced(function*({ config: path, data, host, port, postgres }) {
    const inEnvironment = yield* Effect.orElseSucceed(
      EffectConfig.option(EffectConfig.NonEmptyString("TOOL_EXECUTOR_POSTGRES")),
      Option.none<string>
    )
    const url = Option.orElse(postgres, () => Option.map(inEnvironment, (it) => Redacted.make(it)))
    if (Option.isSome(url) && Option.isSome(data)) {
      return yield* wrong(
        "Records are kept in a folder (--data) or in PostgreSQL (--postgres, TOOL_EXECUTOR_POSTGRES), not in both."
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
      postgres: Option.getOrUndefined(url)
    })
  })
).pipe(
  Command.withShortDescription("Serve tools over HTTP, with a page where questions are answered"),
  Command.withDescription(
    "Serves the tools of a workspace and of MCP servers over HTTP: messages of models in, results out, behind the rules, " +
      "the policy and the limits of the config. Questions are answered on a page at /, which shows waves and records, " +
      "too. Everybody needs a token (`tool-executor token`). Told to end, it takes nothing more, lets what runs come to its end, " +
      "and goes on with the rest at its next start; told twice, it ends at once. Exit code: 0 it was told to end (SIGTERM), " +
      "2 bad usage or config, or it cannot serve there, 130 it was interrupted, or told twice."
  ),
  Command.withExamples([
    { command: "tool-executor serve --config server.json", description: "Serve http://127.0.0.1:7420/" },
    { command: "tool-executor serve --config server.json --port 0", description: "On any free port, which is printed" }
  ])
)
