/**
 * Shows the executor at work: an assistant message with a dozen calls against a
 * copy of this repository, live, then as a timeline, then what would go back to
 * the model. Needs no network and leaves nothing behind.
 *
 * Run with `npm start`.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as EventLines from "../src/cli/agent/EventLines.ts"
import * as Files from "../src/cli/Files.ts"
import * as Lanes from "../src/core/facts/Lanes.ts"
import { LocalExecutor, type ToolEvent, ToolExecutor } from "../src/index.ts"
import { clip } from "../src/terminal/clip.ts"
import * as Timeline from "../src/testing/Timeline.ts"
import { WorkspaceTools } from "../src/tools/index.ts"
import * as WireFormat from "../src/wire/WireFormat.ts"

const call = (id: string, name: string, args: unknown) => ({
  id,
  type: "function",
  function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) }
})

/** What a provider returns when its model wants tools. */
const message = {
  role: "assistant",
  content: null,
  tool_calls: [
    call("c1", "search_text", { pattern: "Effect\\.uninterruptible", path: "src" }),
    call("c2", "search_text", { pattern: "it\\.effect", path: "test" }),
    call("c3", "read_file", { path: "package.json" }),
    call("c4", "read_file", { path: "src/core/engine/ToolExecutor.ts", maxLines: 40 }),
    call("c5", "list_directory", { path: "src" }),
    call("c6", "read_file", { path: "../../etc/passwd" }),
    call("c7", "browse_web", { url: "https://example.com" }),
    call("c8", "read_file", "{\"path\": \"package.json\""),
    call("c9", "run_command", { command: "for step in 1 2 3; do echo step $step; sleep 0.2; done" }),
    call("c10", "write_file", { path: "notes.md", content: "# Notes\n\nThe executor answers every call.\n" }),
    call("c11", "read_file", { path: "notes.md" }),
    call("c12", "run_command", { argv: ["sleep", "60"] })
  ]
}

/** Copies what a checkout holds, without what is installed or built. */
const copyRepository = Effect.gen(function*() {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const repository = yield* Effect.orDie(path.fromFileUrl(new URL("..", import.meta.url)))
  const root = yield* files.makeTempDirectoryScoped({ prefix: "tool-executor-demo-" })
  for (const name of ["src", "test", "scripts", "README.md", "package.json"]) {
    const from = path.join(repository, name)
    if (yield* files.exists(from)) yield* files.copy(from, path.join(root, name))
  }
  return root
})

const rowsOf = (events: ReadonlyArray<ToolEvent.ToolEvent>): ReadonlyArray<Timeline.Row> => {
  const ends = new Map(events.flatMap((event) => event._tag === "ToolCallComplete" ? [[event.index, event.at]] : []))
  return events.flatMap((event) => event._tag === "ToolsEnd" ? event.executionResults : []).map((outcome) => ({
    label: `${outcome.callId} ${outcome.tool}`,
    queuedAt: outcome.queuedAt,
    ...(outcome.startedAt === undefined ? {} : { startedAt: outcome.startedAt }),
    end: ends.get(outcome.index) ?? outcome.queuedAt,
    result: Lanes.summary(outcome)
  }))
}

const demo = Effect.gen(function*() {
  const root = yield* copyRepository
  const tools = WorkspaceTools.make({ root })
  const executor = LocalExecutor.layer(tools.toolkit, {
    policy: { allow: ["write_file", "run_command"] },
    tools: { run_command: { timeout: "1500 millis" } }
  }).pipe(Layer.provide(tools.layer))
  const { calls, format } = yield* Effect.fromResult(WireFormat.read(message))
  const write = EventLines.pretty({ color: yield* EventLines.wantsColor })

  yield* Console.log(`An assistant message with ${calls.length} calls, on a copy of this repository:\n`)
  const events = yield* Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor.ToolExecutor).process()
    return yield* process.stream(calls).pipe(
      Stream.tap((event) => Files.printError(write(event))),
      Stream.runCollect
    )
  }).pipe(Effect.provide(executor))

  yield* Console.log("\nThe same as a timeline:\n")
  for (const line of Timeline.bars(rowsOf(events), { show: (text) => clip(text, 80) })) yield* Console.log(line)
  yield* Console.log(`\n${Timeline.legend}\n\nWhat goes back to the model, one message per call, here shortened:\n`)
  const outcomes = events.flatMap((event) => event._tag === "ToolsEnd" ? event.executionResults : [])
  for (const answer of WireFormat.write("openai", outcomes)) {
    yield* Console.log(`${answer.tool_call_id.padEnd(4)} ${clip(answer.content, 110)}`)
  }
  yield* Console.log(`\n(read as ${format}; the copy is removed)`)
})

demo.pipe(Effect.scoped, Effect.provide(NodeServices.layer), NodeRuntime.runMain)
