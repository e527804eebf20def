/**
 * What commands that work in a folder have in common: their tools, and the flags that say which folder and what may run
 * in it.
 */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type { ToolExecutor } from "../../core/engine/ToolExecutor.ts"
import type { ToolOutcome } from "../../core/vocabulary/ToolOutcome.ts"
import { escape } from "../../internal/escape.ts"
import * as FetchTools from "../../tools/fetch/FetchTools.ts"
import * as Sandbox from "../../tools/sandbox/Sandbox.ts"
import * as SandboxOptions from "../../tools/sandbox/SandboxOptions.ts"
import * as WorkspaceTools from "../../tools/workspace/WorkspaceTools.ts"
import type * as Config from "../Config.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"

export const flags = {
  root: Flag.String("root").pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription(
      "Folder that the tools work in; default the current one. run_command is not confined to it without a sandbox"
    ),
    Flag.withDefault(".")
  ),
  allow: Flag.String("allow").pipe(
    Flag.withMetavar("PATTERN"),
    Flag.withDescription(
      "Calls to allow: a tool, or tool(target) such as \"write_file(src/*)\" or \"run_command(npm test)\"; may be repeated"
    ),
    Flag.atLeast(0)
  ),
  deny: Flag.String("deny").pipe(
    Flag.withMetavar("PATTERN"),
    Flag.withDescription("Calls to deny, even if something else allows them; may be repeated"),
    Flag.atLeast(0)
  ),
  mode: Flag.Literals("mode", ["ask", "acceptEdits", "readOnly", "offline", "plan", "denyAll"]).pipe(
    Flag.withDescription(
      "Mode: acceptEdits allows edits, readOnly and plan deny changes, offline denies calls that reach other hosts, " +
        "denyAll denies every call"
    ),
    Flag.optional
  ),
  config: Flags.text(
    "config",
    "FILE",
    "JSON file with rules, policy and limits; `tool-executor schema config` prints its JSON Schema"
  )
}

/**
 * Makes the tools: those of the workspace, and `fetch_url`. The sandbox is probed first. Files that say what is allowed are not a call's to change
 * (`protect`).
 */
export const make = Effect.fnUntraced(function*(
  root: string,
  config: Config.Config,
  protect: ReadonlyArray<string>
) {
  const sandbox = yield* SandboxOptions.make(config.sandbox)
  const { status } = sandbox
  if (status._tag === "Unavailable") yield* Files.printError(`${escape(Sandbox.describe(status))}\n`)
  const tools = WorkspaceTools.make({ root, allowEnvironment: config.environment, protect, sandbox })
  // durations were checked when the file was decoded
  const fetch = FetchTools.make(config.fetch as FetchTools.Options | undefined)
  return { toolkits: [tools.toolkit, fetch.toolkit], layer: Layer.merge(tools.layer, fetch.layer) }
})

/** The tools, and the layer of their handlers. */
export type FolderTools = Effect.Success<ReturnType<typeof make>>

/** Tells whether a call was denied because there was no approver. */
export const hadNoApprover = (outcome: ToolOutcome): boolean =>
  outcome._tag === "Denied" && "by" in outcome.reason && outcome.reason.by === "noApprover"

/** How to allow calls that were denied for lack of an approver. */
export const howToAllow = "Allow calls with --allow PATTERN, such as --allow \"write_file(src/*)\""

/** What `howToAllow` does not do. */
export const askWins = "An \"ask\" of the policy wins over --allow."

/**
 * Lets what was stopped end in its own way, such as a command that removes its files; whatever takes longer is killed.
 */
export const cleanUp = (executor: ToolExecutor["Service"]): Effect.Effect<void> =>
  executor.orphans.pipe(
    Effect.repeat({ until: ({ running }) => running.length === 0, schedule: Schedule.spaced("20 millis") }),
    Effect.timeoutOption("5 seconds"),
    Effect.asVoid
  )
