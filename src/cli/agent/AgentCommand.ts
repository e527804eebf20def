/** `tool-executor agent`: gives a model a task and the tools of a folder, until it is done. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Flags from "../Flags.ts"
import * as FolderTools from "../gateway/FolderTools.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as Approve from "./Approve.ts"
import * as Checkpoints from "./Checkpoints.ts"

const input = {
  task: Argument.String("TASK").pipe(
    Argument.withDescription("The task for the model; - or no TASK reads it from standard input"),
    Argument.withDefault("-")
  ),
  print: Flags.toggle("print", "Do one task and exit. This is the default; scripts may state it"),
  model: Flags.text(
    "model",
    "PROVIDER:NAME",
    "The provider (openai, openai-chat, anthropic, google or openai-compatible) and the name of its model; default " +
      "$TOOL_EXECUTOR_MODEL. Keys come from the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, " +
      "GOOGLE_GENERATIVE_AI_API_KEY, OPENAI_COMPATIBLE_API_KEY"
  ),
  baseUrl: Flags.text(
    "base-url",
    "URL",
    "URL of the provider's API, such as http://127.0.0.1:11434/v1; no key is needed then"
  ),
  system: Flags.text(
    "system",
    "FILE",
    "File with the system prompt; default: a prompt saying that the model works alone in this folder"
  ),
  json: Flags.toggle("json", "Print every event as a line of JSON, instead of the model's text"),
  ...FolderTools.flags,
  mcp: Flags.text(
    "mcp",
    "FILE",
    "JSON file with additional mcpServers and their rules and policy, in the format of " +
      "`tool-executor mcp`"
  ),
  approve: Approve.flag,
  checkpoints: Checkpoints.flag,
  journal: JournalAt.flag,
  session: Flags.text("session", "NAME", "Store the conversation under a new name, to resume it later"),
  resume: Flag.String("resume").pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription("Resume a stored conversation; default the last one of this root"),
    Flag.withOptionalValue(""),
    Flag.optional
  ),
  noSubAgents: Flags.toggle("no-sub-agents", "Omit dispatch_agent, which starts sub-agents that only read"),
  maxTurns: Flags.count("max-turns", "Maximum number of model turns; default 100"),
  maxCalls: Flags.count("max-calls", "Maximum number of calls that may start; default unlimited"),
  maxTokens: Flags.count("max-tokens", "Maximum number of input and output tokens of all turns; default unlimited"),
  window: Flags.count(
    "window",
    "Tokens of the model's context window: near it, older turns are summarised; default: the conversation is never shortened"
  ),
  timeout: Flag.String("timeout").pipe(
    Flag.withMetavar("TIME"),
    Flag.withDescription("Maximum duration, such as \"10 minutes\"; default unlimited"),
    Flag.filterMap(
      (text) => Option.filter(Duration.fromInput(text as Duration.Input), (it) => Duration.toMillis(it) > 0),
      () => "a time above zero, such as \"10 minutes\""
    ),
    Flag.optional
  )
}

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
      window,
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
      compaction: Option.getOrUndefined(Option.map(window, (window) => ({ window }))),
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
    "Gives a model a task and the tools of a folder, and runs its calls until the task is done. The model's text is " +
      "printed as it arrives; standard error shows the outcome of each call. Calls that need an approval are asked about on the terminal, and are denied " +
      "without one; those of sub-agents are denied. run_command is NOT confined to the root unless --config says sandbox, so allow it only where any command may " +
      "run. The package of the provider must be installed, such as @ai-sdk/openai. Exit codes: 0 the task is finished, " +
      "1 it ended for another reason, 2 invalid usage, config, model or key, 130 it was interrupted. Ctrl-C cancels the " +
      "run and keeps the conversation, with an answer to every call. A second Ctrl-C stops immediately."
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
