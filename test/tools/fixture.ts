import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NodeFs from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import * as ToolContext from "../../src/core/contract/ToolContext.ts"
import { ConfigurationError } from "../../src/core/vocabulary/ConfigurationError.ts"
import { WorkspaceFailure } from "../../src/tools/workspace/WorkspaceFailure.ts"
import * as WorkspaceTools from "../../src/tools/workspace/WorkspaceTools.ts"

type Tools = typeof WorkspaceTools.toolkit.tools

/** A folder that is removed with the scope; `root` and `outside` lie beside each other in it. */
export const makeFolders: Effect.Effect<{ readonly root: string; readonly outside: string }, never, Scope.Scope> =
  Effect.acquireRelease(
    Effect.sync(() => {
      const top = NodeFs.realpathSync(NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "workspace-")))
      NodeFs.chmodSync(top, 0o755)
      const folders = { top, root: NodePath.join(top, "root"), outside: NodePath.join(top, "outside") }
      NodeFs.mkdirSync(folders.root)
      NodeFs.mkdirSync(folders.outside)
      NodeFs.writeFileSync(NodePath.join(folders.outside, "secret.txt"), "SECRET\n")
      return folders
    }),
    ({ top }) => Effect.sync(() => NodeFs.rmSync(top, { recursive: true, force: true }))
  )

/** Writes files below a folder; a key that ends with a slash makes a folder. */
export const put = (root: string, files: Readonly<Record<string, string | Uint8Array>>): void => {
  for (const [path, content] of Object.entries(files)) {
    const absolute = NodePath.join(root, path)
    NodeFs.mkdirSync(path.endsWith("/") ? absolute : NodePath.dirname(absolute), { recursive: true })
    if (!path.endsWith("/")) NodeFs.writeFileSync(absolute, content)
  }
}

/** Every path below a folder, temporary files included. */
export const pathsIn = (root: string): ReadonlyArray<string> =>
  NodeFs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort()

/** Calls a tool as a model does: encoded parameters through the toolkit's own `handle`. */
export const call = <Name extends keyof Tools>(
  options: WorkspaceTools.Options,
  name: Name,
  params: Tool.ParametersEncoded<Tools[Name]>
): Effect.Effect<Tool.Success<Tools[Name]>, WorkspaceFailure | ConfigurationError> =>
  Effect.gen(function*() {
    const tools = yield* WorkspaceTools.toolkit
    // For a name that is not known yet, the types of errors and services stay open.
    const handle = tools.handle as Handle<Name>
    const results = yield* Effect.flatMap(handle(name, params), Stream.runCollect)
    const last = results.at(-1)
    return last === undefined || last.isFailure ? yield* Effect.die("no result") : last.result as Success<Name>
  }).pipe(
    Effect.provide(WorkspaceTools.layer(options)),
    Effect.catch(expected)
  )

type Success<Name extends keyof Tools> = Tool.Success<Tools[Name]>

type Handle<Name extends keyof Tools> = (
  name: Name,
  params: Tool.ParametersEncoded<Tools[Name]>
) => Effect.Effect<Stream.Stream<Tool.HandlerResult<Tools[Name]>, unknown>, unknown>

const expected = (error: unknown) =>
  isFailure(error) || error instanceof ConfigurationError ? Effect.fail(error) : Effect.die(error)

const isFailure = Schema.is(WorkspaceFailure)

/** A `ToolContext` that keeps what tools do with it. */
export const recorder = (
  onProgress: (message: string) => Effect.Effect<void> = () => Effect.void,
  commit: ToolContext.Service["commit"] = (write) => write
) => {
  const seen = { progress: [] as Array<string>, commits: 0 }
  const layer = Layer.effect(
    ToolContext.ToolContext,
    Effect.map(ToolContext.ToolContext, (context) => ({
      ...context,
      progress: ({ message }: { readonly message?: string | undefined }) =>
        Effect.suspend(() => {
          seen.progress.push(message ?? "")
          return onProgress(message ?? "")
        }),
      commit: <A, E, R>(write: Effect.Effect<A, E, R>) =>
        Effect.suspend(() => {
          seen.commits++
          return commit(write)
        })
    }))
  )
  return { seen, layer }
}

/** Waits until a condition holds. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => condition() ? Effect.void : Effect.andThen(Effect.sleep(5), until(condition)))
