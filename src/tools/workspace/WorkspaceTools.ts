/**
 * Tools over a root folder: `read_file`, `list_directory`, `find_files`, `search_text`, `write_file`, `edit_file` and
 * `run_command`.
 *
 * The file tools cannot leave the root, through links neither. `run_command` can, unless there is a `Sandbox`.
 *
 * **Example** (Giving a model a folder)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { WorkspaceTools } from "effect-tool-executor/tools"
 *
 * const { layer, toolkit } = WorkspaceTools.make({ root: "." })
 *
 * export const program = Effect.gen(function*() {
 *   const tools = yield* toolkit
 *   const results = yield* tools.handle("read_file", { path: "README.md", maxLines: 20 })
 *   return yield* Stream.runCollect(results)
 * }).pipe(Effect.provide(layer))
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as NodePath from "node:path"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import * as RunCommand from "../command/RunCommand.ts"
import * as EditFile from "../files/EditFile.ts"
import * as FileWriter from "../files/FileWriter.ts"
import * as FindFiles from "../files/FindFiles.ts"
import * as ListDirectory from "../files/ListDirectory.ts"
import { OwnChanges } from "../files/OwnChanges.ts"
import * as ReadFile from "../files/ReadFile.ts"
import * as SearchText from "../files/SearchText.ts"
import * as WriteFile from "../files/WriteFile.ts"
import * as Sandbox from "../sandbox/Sandbox.ts"
import * as PathTarget from "./PathTarget.ts"
import * as WiderTargets from "./WiderTargets.ts"
import * as Workspace from "./Workspace.ts"
import type { WorkspaceFailure } from "./WorkspaceFailure.ts"

/** What the tools work on and with. */
export interface Options {
  /** Path of an existing folder; a relative one starts at the working directory of the process. */
  readonly root: string
  /** Paths that always need an approval, in addition to those in a `.git`; relative ones start at the root. */
  readonly protect?: ReadonlyArray<string> | undefined
  /**
   * Paths that may be written like any other, though other tools run what is there (`ExecutedFiles.byThemselves`,
   * `ExecutedFiles.byCommands`); relative ones start at the root. Never what lies in a `.git` or is in `protect`.
   */
  readonly unprotect?: ReadonlyArray<string> | undefined
  /**
   * Environment that commands get their variables from, such as that of the process. Default: the current
   * `ConfigProvider`, which is that of the process.
   */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  /** Names of the variables that commands get. Default: `defaultEnvironment`. */
  readonly allowEnvironment?: ReadonlyArray<string> | undefined
  /** How long a command's process group has between TERM and KILL. Default: 2 seconds. */
  readonly killGrace?: Duration.Input | undefined
  /**
   * How long output is awaited after a command exited, if something it started holds on to it. Default: 200
   * milliseconds.
   */
  readonly drain?: Duration.Input | undefined
  /** Where commands run, the service of `Sandbox`. Default: without a sandbox. */
  readonly sandbox?: Sandbox.Sandbox["Service"] | undefined
}

/** Names of the environment variables that commands get by default: nothing that commonly holds a secret. */
export const defaultEnvironment: ReadonlyArray<string> = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LC_ALL",
  "LC_CTYPE",
  "TERM",
  "TMPDIR",
  "TZ"
]

/**
 * The tools.
 *
 * **Gotchas**
 *
 * Without a root there are no resource keys, so `write_file` and `edit_file` of this toolkit run alone, and there is no
 * preview of their changes. The toolkit of `make` has both, and its writers of different files run concurrently.
 */
export const toolkit = Toolkit.make(
  ReadFile.tool,
  ListDirectory.tool,
  FindFiles.tool,
  SearchText.tool,
  WriteFile.tool,
  EditFile.tool,
  RunCommand.tool
)

/** Handlers of the tools. */
export type Handlers = Tool.HandlersFor<typeof toolkit.tools>

/**
 * Layer with the handlers of the tools over a root folder.
 *
 * Fails with `ConfigurationError` where the root is missing or not a folder, or where a duration is negative, endless
 * or not a duration.
 */
export const layer = (options: Options): Layer.Layer<Handlers, ConfigurationError> =>
  toolkit.toLayer(Effect.gen(function*() {
    const checked = yield* check(options)
    const changes = new OwnChanges()
    const workspace = { ...checked.workspace, beforeProtected: changes.write }
    return toolkit.of({
      read_file: ReadFile.make(workspace),
      list_directory: ListDirectory.make(workspace),
      find_files: FindFiles.make(workspace),
      search_text: SearchText.make(workspace),
      write_file: WriteFile.make(workspace),
      edit_file: EditFile.make(workspace),
      run_command: RunCommand.make(workspace, { ...checked.command, changes })
    })
  }))

/**
 * Makes the toolkit and the handlers for a root folder; the file tools declare the real paths they touch
 * (`ToolAnnotations.Resources`) and for policies the same relative to the root (`ToolAnnotations.Targets`), with what
 * lies in a `.git` protected. What would be written can be seen before (`ToolAnnotations.Preview`). A command is a
 * target if it is plain words.
 */
export const make = (options: Options): {
  readonly toolkit: typeof toolkit
  readonly layer: Layer.Layer<Handlers, ConfigurationError>
} => {
  const resources = resourcesOf(options.root)
  const onPaths = <T extends { readonly annotate: Tool.Any["annotate"] }>(tool: T, access: PathTarget.Access): T =>
    tool.annotate(ToolAnnotations.Resources, resources)
      .annotate(ToolAnnotations.Targets, targetsOf(options, access)) as unknown as T
  const writes = <T extends Tool.Any>(
    tool: T,
    change: (params: Tool.Parameters<T>) => (before: Uint8Array | undefined) => Effect.Effect<string, WorkspaceFailure>
  ): T =>
    onPaths(tool, "writes")
      .annotate(ToolAnnotations.Promoted, true)
      .annotate(ToolAnnotations.Edits, true)
      .annotate(ToolAnnotations.Preview, (params) =>
        Effect.gen(function*() {
          const workspace = yield* Workspace.make(options.root, options)
          const [target] = yield* targetsOf(options, "writes")(params)
          const { path } = params as { readonly path: string }
          return yield* FileWriter.preview(workspace, path, target!, change(params as Tool.Parameters<T>))
        })) as unknown as T
  return {
    toolkit: Toolkit.make(
      onPaths(ReadFile.tool, "reads"),
      onPaths(ListDirectory.tool, "reads"),
      onPaths(FindFiles.tool, "reads"),
      onPaths(SearchText.tool, "reads"),
      writes(WriteFile.tool, ({ content }) => () => Effect.succeed(content)),
      writes(EditFile.tool, (params) => (before) => Effect.map(EditFile.edit(params, before), ({ text }) => text)),
      RunCommand.toolFor(options.sandbox ?? Sandbox.off).annotate(ToolAnnotations.Targets, RunCommand.targets)
    ),
    layer: layer(options)
  }
}

/** The one path of a call; without a usable root its text, so that there always is a key. */
const resourcesOf = (root: string) => (params: unknown): Effect.Effect<ReadonlyArray<string>> => {
  const path = Predicate.hasProperty(params, "path") && typeof params.path === "string" ? params.path : "."
  return Workspace.make(root).pipe(
    Effect.flatMap((workspace) => Workspace.resourceKey(workspace, path)),
    Effect.orElseSucceed(() => NodePath.resolve(root, path)),
    Effect.map((key) => [key])
  )
}

/** The one path of a call, as policies know it. */
const targetsOf = (options: Options, access: PathTarget.Access) => {
  const resources = resourcesOf(options.root)
  return (params: unknown): Effect.Effect<ReadonlyArray<PathTarget.PathTarget>> =>
    Effect.gen(function*() {
      const workspace = yield* Effect.orDie(Workspace.make(options.root, options))
      const targetOf = yield* PathTarget.targets(workspace, access)
      return (yield* resources(params)).map((real) => {
        const target = targetOf(real)
        const wider = WiderTargets.folders(target.text)
        return wider.length === 0 ? target : { ...target, wider }
      })
    })
}

const check = Effect.fnUntraced(function*(options: Options) {
  const workspace = yield* Effect.result(Workspace.make(options.root, options))
  const killGrace = durationOf(options.killGrace ?? "2 seconds")
  const drain = durationOf(options.drain ?? "200 millis")
  const problems: Array<Problem> = [
    ...(Result.isFailure(workspace) ? workspace.failure.problems : []),
    ...(killGrace === undefined ? [wrongDuration("killGrace")] : []),
    ...(drain === undefined ? [wrongDuration("drain")] : [])
  ]
  if (Result.isFailure(workspace) || killGrace === undefined || drain === undefined) {
    return yield* new ConfigurationError({ subject: "WorkspaceTools", problems })
  }
  const environment = yield* environmentOf(options)
  return {
    workspace: workspace.success,
    command: { environment, killGrace, drain, sandbox: options.sandbox ?? Sandbox.off }
  }
})

const durationOf = (input: Duration.Input): Duration.Duration | undefined =>
  Option.getOrUndefined(
    Option.filter(Duration.fromInput(input), (it) => Duration.isFinite(it) && !Duration.isNegative(it))
  )

const wrongDuration = (path: string): Problem => ({
  path,
  problem: "is not a duration of zero or more with an end",
  expected: "a duration such as \"2 seconds\""
})

const environmentOf = Effect.fnUntraced(function*(options: Options) {
  const environment: Record<string, string> = {}
  for (const name of options.allowEnvironment ?? defaultEnvironment) {
    const value = options.environment === undefined
      ? Option.getOrUndefined(yield* Effect.orElseSucceed(Config.option(Config.String(name)), Option.none))
      : Object.hasOwn(options.environment, name)
      ? options.environment[name]
      : undefined
    if (value !== undefined) environment[name] = value
  }
  return environment
})
