/**
 * Replays written coding sessions through the real executor, with a person who approves what is sensible. Counts what
 * the person is asked.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Policy from "../../../src/core/gates/Policy.ts"
import * as Calls from "../../../src/core/store/JournalCalls.ts"
import { Approvals, Journal, LocalExecutor, ToolAnnotations, ToolCall, ToolExecutor } from "../../../src/index.ts"
import type * as PolicyReplay from "../../../src/policy/PolicyReplay.ts"
import * as RecordedCalls from "../../../src/policy/RecordedCalls.ts"
import * as Suggestions from "../../../src/policy/Suggestions.ts"
import { executedBy } from "../../../src/tools/command/ExecutedFiles.ts"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import * as FetchTarget from "../../../src/tools/fetch/FetchTarget.ts"
import * as WiderTargets from "../../../src/tools/workspace/WiderTargets.ts"
import sessions from "./coding.json" with { type: "json" }

export interface Session {
  readonly task: string
  readonly calls: ReadonlyArray<string>
}

export const all: ReadonlyArray<Session> = sessions

/** What the person finds wrong, whatever the task. */
const isDenied = (text: string): boolean => /rm -rf|\| sh$|curl -d|push --force|npm publish|^\.github\//.test(text)

/** Commands that have to leave the sandbox: for the network, or to write where it does not let them. */
const leaves = (command: string): boolean =>
  /npm (?:install|outdated|publish)|curl|git (?:push|add|commit|mv)/.test(command)

const fileTarget = (writes: boolean) => (params: unknown): ToolAnnotations.TargetsOf => {
  const { path } = params as { readonly path: string }
  const by = writes ? executedBy(path.split("/")) : undefined
  if (by === "themselves") return [{ text: path, kind: "protected" }]
  return [by === "commands" ? { text: path, runBy: "run_command" } : { text: path, wider: WiderTargets.folders(path) }]
}

const fileTool = (name: string, writes: boolean) =>
  Tool.make(name, { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
    .annotate(Tool.Readonly, !writes)
    .annotate(ToolAnnotations.Targets, fileTarget(writes))

const command = Tool.make("run_command", {
  parameters: Schema.Struct({ command: Schema.String, unconfined: Schema.optionalKey(Schema.Boolean) }),
  success: Schema.String
}).annotate(Tool.Readonly, false).annotate(ToolAnnotations.Targets, RunCommand.targets)

const sandboxed = command.annotate(ToolAnnotations.Sandboxed, (params) => {
  const unproved = { holds: [], missing: [] }
  return (params as { readonly unconfined?: boolean }).unconfined === true
    ? { _tag: "Open", driver: "none", network: "open", ...unproved }
    : { _tag: "Confined", driver: "sandbox", network: "none", ...unproved }
})

const fetch = Tool.make("fetch_url", { parameters: Schema.Struct({ url: Schema.String }), success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(Tool.OpenWorld, true)
  .annotate(ToolAnnotations.Targets, FetchTarget.targets)

const files = [
  fileTool("read_file", false),
  fileTool("list_directory", false),
  fileTool("search_text", false),
  fileTool("write_file", true),
  fileTool("edit_file", true)
] as const

const kitOf = (isSandboxed: boolean) => Toolkit.make(...files, isSandboxed ? sandboxed : command, fetch)

/** A line of a transcript, as a call. */
const callOf = (line: string, id: string, isSandboxed: boolean) => {
  const [verb = "", ...rest] = line.split(" ")
  const text = rest.join(" ")
  switch (verb) {
    case "run":
      return ToolCall.make(id, "run_command", {
        command: text,
        ...(isSandboxed && leaves(text) ? { unconfined: true } : {})
      })
    case "fetch":
      return ToolCall.make(id, "fetch_url", { url: text })
    case "search":
      return ToolCall.make(id, "search_text", { path: "." })
    case "list":
      return ToolCall.make(id, "list_directory", { path: text })
    default:
      return ToolCall.make(id, `${verb}_file`, { path: text })
  }
}

/** What happened in a session. */
export interface Replayed {
  readonly asked: ReadonlyArray<string>
  readonly denied: ReadonlyArray<string>
  readonly ran: ReadonlyArray<string>
  /** Requests that an earlier lasting approval of the session covers. */
  readonly repeated: ReadonlyArray<string>
}

/** Replays one session; entries go to the journal that is there. */
export const replay = (session: Session, policy: Policy.Policy, isSandboxed: boolean) =>
  Effect.gen(function*() {
    const kit = kitOf(isSandboxed)
    const seen = { asked: [] as Array<string>, denied: [] as Array<string>, ran: [] as Array<string> }
    const repeated: Array<string> = []
    const granted = new Set<string>()
    // what was sensible once is approved for the rest of the session
    const people = Approvals.layerApprover((request) =>
      Effect.sync((): Approvals.Answer => {
        const text = request.targets[0]?.text ?? ""
        const key = `${request.tool} ${text}`
        if (granted.has(key)) repeated.push(key)
        const isSecond = seen.asked.includes(key)
        seen.asked.push(key)
        if (isDenied(text)) {
          seen.denied.push(key)
          return { _tag: "Deny" }
        }
        if (!isSecond || request.remember === "call") return { _tag: "ApproveOnce" }
        granted.add(key)
        return { _tag: "ApproveForScope" }
      })
    )
    const handlers = kit.toLayer(
      Object.fromEntries(
        Object.keys(kit.tools).map((name) => [
          name,
          (params: Readonly<Record<string, string>>) =>
            Effect.sync(() => {
              seen.ran.push(`${name} ${params["path"] ?? params["command"] ?? params["url"]}`)
              return "done"
            })
        ])
      ) as never
    )
    yield* Effect.gen(function*() {
      const process = yield* (yield* ToolExecutor.ToolExecutor).process()
      for (const [index, line] of session.calls.entries()) {
        yield* process.executeWave([callOf(line, `${index}`, isSandboxed)])
      }
    }).pipe(
      Effect.scoped,
      Effect.provide(
        LocalExecutor.layer(kit, { policy, principal: session.task, dedupe: false }).pipe(
          Layer.provide(handlers),
          Layer.provide(people)
        )
      )
    )
    const replayed: Replayed = { ...seen, repeated }
    return replayed
  })

/** What the tools of the transcripts say of recorded calls. */
const known: PolicyReplay.Known = {
  tool: (name) => {
    const tool = kitOf(true).tools[name as "run_command"]
    return tool === undefined ? undefined : {
      subject: {
        name,
        readOnly: Context.get(tool.annotations, Tool.Readonly),
        openWorld: name === "fetch_url",
        edits: false,
        guardsTargets: true,
        declaresTargets: true
      }
    }
  },
  targets: (call) => {
    const tool = kitOf(true).tools[call.tool as "run_command"]
    const targets = tool === undefined ? undefined : Context.get(tool.annotations, ToolAnnotations.Targets)
    const found = call.args._tag === "Full" ? targets?.(call.args.value) : undefined
    return Effect.isEffect(found) ? undefined : found
  }
}

/** The policy that they start with. */
export const base: Policy.Policy = { ask: ["run_command(rm *)"] }

/** Replays all sessions without a sandbox and rules, and with the sandbox and the rules that the first half proposes. */
export const compared = Effect.gen(function*() {
  const half = all.length / 2
  const journal = yield* Journal.Journal
  const confined: Policy.Policy = { ...base, sandboxed: "allow" }
  const first = yield* Effect.forEach(all.slice(0, half), (it) => replay(it, base, false))
  const entries = yield* Stream.runCollect(journal.read({}))
  const calls = Calls.callsOf(entries.map(({ entry }) => entry)).flatMap((it) => RecordedCalls.of(it) ?? [])
  const suggestions = Suggestions.suggest([{ name: "", policy: confined }], calls, known)
  const second = yield* Effect.forEach(all.slice(half), (it) => replay(it, base, false))
  const before = yield* Effect.forEach(all.slice(0, half), (it) => replay(it, confined, true))
  const learnt: Policy.Policy = { ...confined, allow: suggestions.map(({ rule }) => rule) }
  const after = yield* Effect.forEach(all.slice(half), (it) => replay(it, learnt, true))
  return { without: [...first, ...second], before, after, half, suggestions }
})
