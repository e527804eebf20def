/** `tool-executor agent`: gives a model a task and the tools of a folder, until it is done. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Checkpoints from "./Checkpoints.ts"
import * as FolderTools from "./FolderTools.ts"
import * as JournalAt from "./JournalAt.ts"

const atLeastOne = (name: string, description: string) =>
  Flag.Int(name).pipe(
    Flag.withMetavar("COUNT"),
    Flag.withDescription(description),
    Flag.filter((count) => count >= 1, () => "a whole number of 1 or more"),
    Flag.optional
  )

const input = {
  task: Argument.String("TASK").pipe(
    Argument.withDescription("What the model is to do; - or nothing reads it from standard input"),
    Argument.withDefault("-")
  ),
  print: Flag.Boolean("print").pipe(
    Flag.withDescription("Do one task and exit. This is the default; scripts say it to be on the safe side"),
    Flag.withoutNegation,
    Flag.withDefault(true)
  ),
  model: Flag.String("model").pipe(
    Flag.withMetavar("PROVIDER:NAME"),
    Flag.withDescription(
      "The model: openai, openai-chat, anthropic, google or openai-compatible, and its name there; default " +
        "$TOOL_EXECUTOR_MODEL. Keys come from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, " +
        "GOOGLE_GENERATIVE_AI_API_KEY, OPENAI_COMPATIBLE_API_KEY"
    ),
    Flag.optional
  ),
  baseUrl: Flag.String("base-url").pipe(
    Flag.withMetavar("URL"),
    Flag.withDescription("Where the provider is reached, such as http://127.0.0.1:11434/v1; no key is needed then"),
    Flag.optional
  ),
  system: Flag.String("system").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription("File with what the model is told of its part; default: that it works alone in this folder"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print every event as a line of JSON, instead of what the model says"),
    Flag.withDefault(false)
  ),
  ...FolderTools.flags,
  mcp: Flag.String("mcp").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      "JSON file with mcpServers whose tools it has as well, and rules and policy for them, as `tool-executor mcp` " +
        "takes it"
    ),
    Flag.optional
  ),
  checkpoints: Checkpoints.flag,
  journal: JournalAt.flag,
  session: Flag.String("session").pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription("Keep the conversation under a new name, to be gone on with"),
    Flag.optional
  ),
  resume: Flag.String("resume").pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription("Go on with a conversation that was kept, by default the last one of this root"),
    Flag.withOptionalValue(""),
    Flag.optional
  ),
  noSubAgents: Flag.Boolean("no-sub-agents").pipe(
    Flag.withDescription("Leave out dispatch_agent, which starts agents that look around and change nothing"),
    Flag.withoutNegation,
    Flag.withDefault(false)
  ),
  maxTurns: atLeastOne("max-turns", "How often the model is asked; default 100"),
  maxCalls: atLeastOne("max-calls", "How many calls may start; default no bound"),
  maxTokens: atLeastOne("max-tokens", "Tokens in and out, all turns together; default no bound"),
  timeout: Flag.String("timeout").pipe(
    Flag.withMetavar("TIME"),
    Flag.withDescription("How long it may take, such as \"10 minutes\"; default no bound"),
    Flag.filterMap(
      (text) => Option.filter(Duration.fromInput(text as Duration.Input), (it) => Duration.toMillis(it) > 0),
      () => "a time above zero, such as \"10 minutes\""
    ),
    Flag.optional
  )
}

/** The command. */
export const command = Command.make(
  "agent",
  input,
  Effect.fnUntraced(function*(
    {
      allow,
      baseUrl,
      deny,
      maxCalls,
      maxTokens,
      maxTurns,
      mode,
      model,
      noSubAgents,
      print: _,
      resume,
      session,
      timeout,
      ...same
    }
  ) {
    const agent = yield* Effect.promise(() => import("./AgentRun.ts"))
    yield* agent.run({
      ...same,
      model: { name: Option.getOrUndefined(model), baseUrl: Option.getOrUndefined(baseUrl) },
      policy: { allow, deny, mode: Option.getOrUndefined(mode) },
      session: { begin: session, resume },
      subAgents: !noSubAgents,
      limits: {
        turns: Option.getOrUndefined(maxTurns),
        calls: Option.getOrUndefined(maxCalls),
        tokens: Option.getOrUndefined(maxTokens),
        time: Option.getOrUndefined(timeout)
      }
    })
  })
).pipe(
  Command.withShortDescription("Give a model a task and the tools of a folder"),
  Command.withDescription(
    "Gives a model a task and the tools of a folder, runs its calls, and goes on until it is done. What the model " +
      "says is printed as it comes; standard error shows what becomes of its calls. Nobody is asked: what is not " +
      "allowed and would be asked about is refused, also where a sub-agent calls it. run_command is NOT confined to " +
      "the root, so allow it only where any command may run. The provider's package has to be installed, such as " +
      "@ai-sdk/openai. Exit code: 0 it finished, 1 it ended for another reason, 2 bad usage, config, model or key, 130 " +
      "it was told to end. Ctrl-C cancels, and the conversation is kept with every call answered. A second one ends at " +
      "once."
  ),
  Command.withExamples([
    {
      command: "tool-executor agent --model anthropic:claude-sonnet-4-5 \"What does this project do?\"",
      description: "Ask about a folder, changing nothing"
    },
    {
      command:
        "tool-executor agent \"Fix the typos in docs\" --allow \"write_file(docs/*)\" --allow \"edit_file(docs/*)\"",
      description: "With TOOL_EXECUTOR_MODEL in the environment, allow edits of a folder"
    },
    {
      command:
        "echo \"Say hello\" | tool-executor agent --model openai-compatible:qwen3 --base-url http://127.0.0.1:11434/v1",
      description: "Ask a model on this machine"
    }
  ])
)
