/** Tools of one MCP server as the registry has them. */
import type { Tool as ForeignTool } from "@modelcontextprotocol/client"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ToolContext } from "../core/contract/ToolContext.ts"
import type { Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import { escape } from "../internal/escape.ts"
import { withoutSlowPatterns } from "../internal/json-schema/index.ts"
import { IsForeign } from "../internal/toolSchemas.ts"
import * as Unseen from "../internal/unseen.ts"
import { matches } from "../internal/wildcard.ts"
import type { McpConnection } from "./McpConnection.ts"
import * as McpResult from "./McpResult.ts"
import type { McpServer } from "./McpServers.ts"
import { Described } from "./ToolDescription.ts"
import { toolNames } from "./toolNames.ts"

/** The server, and how to reach it at the moment. */
export interface Remote {
  readonly name: string
  readonly server: McpServer
  readonly prefix: string
  readonly connection: McpConnection | undefined
}

type Settings = ReadonlyArray<readonly [name: string, settings: ToolHandlers.Settings]>

/** A tool as it was listed, and what came of it. */
interface Known {
  readonly json: string
  readonly tool: ToolHandlers.RegisteredTool
}

/** The tools of a server by the names under which they are registered. */
export type Tools = ReadonlyMap<string, Known>

/** How many tools, and characters of them, are registered before others have a turn. */
const atOnce = 10
const charsAtOnce = 20_000

/**
 * Registers what a server listed; unchanged tools stay. A tool that cannot be registered is left out: the log
 * says why where it is the server's fault, `problems` where it is the host's settings.
 */
export const make = Effect.fnUntraced(function*(
  remote: Remote,
  listed: ReadonlyArray<ForeignTool>,
  before: Tools,
  settings: Settings,
  maxFileChars: number,
  isTheirs: (name: string) => boolean
): Effect.fn.Return<{ readonly tools: Tools; readonly problems: ReadonlyArray<Problem> }> {
  const { except = [], only = ["*"], readOnly = [] } = remote.server
  const isOne = (patterns: ReadonlyArray<string>, name: string) => patterns.some((it) => matches(it, name))
  const foreign = new Map<string, ForeignTool>()
  for (const tool of listed) {
    if (!foreign.has(tool.name)) foreign.set(tool.name, tool)
    else yield* warn(remote, `it lists "${tool.name}" more than once; the first counts`)
  }
  const names = toolNames(remote.prefix, foreign.keys())
  const wanted = Array.from(foreign.values()).filter(({ name }) => isOne(only, name) && !isOne(except, name))
  const taken: Array<{ readonly tool: ForeignTool; readonly name: string; readonly json: string }> = []
  for (const tool of wanted) {
    const name = names.get(tool.name)!
    if (!isTheirs(name)) taken.push({ tool, name, json: JSON.stringify(tool) })
    else yield* warn(remote, `tools.${name}: it begins like the tools of another server; the tool is left out`)
  }
  const problems: Array<Problem> = []
  const registered = new Map<string, ToolHandlers.RegisteredTool>()
  for (const part of slicesOf(taken.filter(({ json, name }) => before.get(name)?.json !== json))) {
    const declared: Array<Tool.Any> = []
    for (const { name, tool } of part) {
      const schema = withoutSlowPatterns(tool.inputSchema)
      if (Result.isFailure(schema)) {
        yield* warn(remote, `tools.${name}: its JSON Schema cannot be used: ${schema.failure}; the tool is left out`)
      } else {
        const shown = yield* visible(remote, name, { ...tool, inputSchema: schema.success })
        if (shown !== undefined) declared.push(declare(name, shown, remote, isOne(readOnly, tool.name)))
      }
    }
    const handlers = Object.fromEntries(part.map(({ name, tool }) => [name, handlerOf(remote, tool, maxFileChars)]))
    const result = yield* register(remote, declared, handlers, settings)
    for (const [name, tool] of result.registry) registered.set(name, tool)
    problems.push(...result.problems)
    yield* Effect.yieldNow
  }
  const tools = new Map<string, Known>()
  for (const { json, name } of taken) {
    const known = before.get(name)
    const tool = known?.json === json ? known.tool : registered.get(name)
    if (tool !== undefined) tools.set(name, { json, tool })
  }
  return { tools, problems }
})

const slicesOf = <A extends { readonly json: string }>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> => {
  const slices: Array<Array<A>> = []
  let chars = Infinity
  for (const it of all) {
    chars += it.json.length
    if (chars > charsAtOnce || slices.at(-1)?.length === atOnce) {
      slices.push([])
      chars = it.json.length
    }
    slices.at(-1)!.push(it)
  }
  return slices
}

/** Registers those that can be. */
const register = Effect.fnUntraced(function*(
  remote: Remote,
  declared: ReadonlyArray<Tool.Any>,
  handlers: object,
  settings: Settings
): Effect.fn.Return<{ readonly registry: ToolHandlers.Registry; readonly problems: ReadonlyArray<Problem> }> {
  const attempt = (tools: ReadonlyArray<Tool.Any>, settings: Settings) => {
    const toolkit = Toolkit.make(...tools)
    return ToolHandlers.makeRegistry([toolkit], {
      tools: Object.fromEntries(settings.filter(([name]) => Object.hasOwn(toolkit.tools, name)))
    }).pipe(Effect.provide(toolkit.toLayer(handlers as never)), Effect.result)
  }
  const result = yield* attempt(declared, settings)
  if (Result.isSuccess(result)) return { registry: result.success, problems: [] }
  const isWrong = ({ name }: Tool.Any) => result.failure.problems.some(({ path }) => path === `tools.${name}`)
  // without settings of the host, the server caused the problem
  const bare = yield* attempt(declared.filter(isWrong), [])
  const unfit = Result.isSuccess(bare) ? [] : bare.failure.problems
  for (const { path, problem } of unfit) yield* warn(remote, `${path}: ${problem}; the tool is left out`)
  return {
    registry: Result.getOrThrow(yield* attempt(declared.filter((tool) => !isWrong(tool)), settings)),
    problems: result.failure.problems.filter(({ path }) => !unfit.some((it) => it.path === path))
  }
})

const warn = ({ name }: Remote, text: string) => Effect.logWarning(`MCP server "${name}": ${escape(text)}`)

/** A tool whose JSON Schema was checked. */
interface Checked extends Omit<ForeignTool, "inputSchema"> {
  readonly inputSchema: JsonSchema.JsonSchema
}

/** Handles invisible text in what a server says about a tool; nothing if the tool is left out. */
const visible = Effect.fnUntraced(function*(remote: Remote, name: string, tool: Checked) {
  const unseen = Unseen.findIn(tool)
  if (unseen === undefined) return tool
  const { invisible = "remove" } = remote.server
  const done = { show: "it is passed on", remove: "it was removed", refuse: "the tool is left out" }[invisible]
  yield* warn(remote, `tools.${name}: its ${unseen.path} holds invisible text (${Unseen.inWords(unseen)}); ${done}`)
  return invisible === "refuse" ? undefined : invisible === "show" ? tool : Unseen.withoutIn(tool) as Checked
})

const declare = (name: string, tool: Checked, remote: Remote, isReadOnly: boolean): Tool.Any => {
  const { server } = remote
  const hints = tool.annotations ?? {}
  const trusted = server.trust === true ? hints : {}
  const declared = Tool.dynamic(name, {
    description: tool.description ?? tool.title ?? hints.title,
    parameters: tool.inputSchema,
    success: McpResult.McpResult,
    failure: Schema.Union([Schema.String, McpResult.McpResult]),
    toModelOutput: McpResult.toModelOutput
  })
    .annotate(Described, { title: tool.title, hintedTitle: hints.title, meta: McpResult.metaOf(tool._meta) })
    .annotate(
      ToolAnnotations.FailureText,
      (failure) => typeof failure === "string" ? failure : McpResult.textOf(failure as McpResult.McpResult)
    )
    .annotate(IsForeign, true)
    .annotate(ToolAnnotations.Invisible, server.invisible)
    .annotate(ToolAnnotations.Sandboxed, sandboxedBy(remote))
    .annotate(Tool.Strict, false)
    .annotate(Tool.Readonly, isReadOnly || trusted.readOnlyHint === true)
    .annotate(Tool.Idempotent, trusted.idempotentHint === true)
    .annotate(Tool.Destructive, trusted.destructiveHint ?? true)
  const isOpen = server.openWorld ?? (hints.openWorldHint === true ? true : trusted.openWorldHint)
  return isOpen === undefined ? declared : declared.annotate(Tool.OpenWorld, isOpen)
}

/** How calls run: as the server does that is connected now. */
const sandboxedBy = (remote: Remote): (() => ToolAnnotations.Sandboxing) | undefined => {
  const { server } = remote
  if (!("sandbox" in server) || server.sandbox === undefined || server.sandbox === false) return undefined
  return () => remote.connection?.sandboxing ?? notConfined
}

/** Nothing is known to confine it. */
const notConfined: ToolAnnotations.Sandboxing = {
  _tag: "Open",
  driver: "none",
  network: "open",
  holds: [],
  missing: []
}

const handlerOf = (remote: Remote, tool: ForeignTool, maxFileChars: number) => (args: unknown) =>
  Effect.gen(function*() {
    const { connection } = remote
    if (connection === undefined) {
      return yield* Effect.fail(`The server "${remote.name}" is not connected. Try again later.`)
    }
    const context = yield* ToolContext
    const runFork = Effect.runForkWith(yield* Effect.context<never>())
    const result = yield* connection.callTool(
      tool,
      args as Record<string, unknown>,
      ({ message, progress, total }) => void runFork(context.progress({ message, progress, total }))
    ).pipe(Effect.mapError((error) => error.message))
    const taken = McpResult.from(result, maxFileChars)
    if (result.isError !== true) return taken
    const text = McpResult.textOf(taken)
    const isTextAlone = Object.keys(taken).length === 1 && taken.content.every(({ type }) => type === "text")
    if (text === "") return yield* Effect.fail("The tool failed without a message.")
    return yield* Effect.fail(isTextAlone ? text : taken)
  })
