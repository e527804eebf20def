/**
 * Checkpoints in a folder, so that another process can undo what this one did.
 *
 * The folder lies outside the root that tools work in, and only its owner can
 * read it (mode 0700, files 0600). A checkpoint is a folder of its own, there as
 * a whole or not at all.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { ConfigurationError } from "../ConfigurationError.ts"
import * as FileChange from "../FileChange.ts"
import * as Checkpoints from "../output/Checkpoints.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * Where checkpoints are kept, and how many.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options extends Checkpoints.Options {
  /** Path of the folder; made when the first checkpoint is kept. */
  readonly directory: string
  /** The root that tools work in; the folder must not lie in it. */
  readonly root: string
}

/**
 * Layer that keeps checkpoints in a folder; fails with `ConfigurationError` where
 * that lies in the root, or around it.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<Checkpoints.Checkpoints, ConfigurationError> =>
  Layer.effect(Checkpoints.Checkpoints, make(options))

/**
 * Creates the service; fails with `ConfigurationError` where the folder lies in
 * the root, or around it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<Checkpoints.Checkpoints["Service"], ConfigurationError> {
  const workspace = yield* Workspace.make(options.root)
  const directory = yield* Workspace.resourceKey(workspace, NodePath.resolve(options.directory))
  if (Workspace.isWithin(workspace.root, directory) || Workspace.isWithin(directory, workspace.root)) {
    return yield* new ConfigurationError({
      subject: "CheckpointFolder",
      problems: [{
        path: "directory",
        problem: `'${directory}' lies in the root '${workspace.root}', or around it, where tools could change it`,
        expected: "a folder apart from the root"
      }]
    })
  }
  const bounds = Checkpoints.boundsOf(options)
  const describe = Checkpoints.describer(bounds)
  const known = new Map<string, Checkpoints.Checkpoint>()
  const at = (...names: ReadonlyArray<string>) => NodePath.join(directory, ...names)

  /** Nothing if another process is just removing it, or it is not a checkpoint. */
  const readOne = Effect.fnUntraced(function*(id: string) {
    const found = known.get(id)
    if (found !== undefined) return [found]
    const text = yield* Effect.option(attempt(id, () => NodeFsPromises.readFile(at(id, "checkpoint.json"), "utf8")))
    if (text._tag === "None") return []
    const decoded = yield* Effect.option(decode(text.value))
    if (decoded._tag === "None" || decoded.value.id !== id) return []
    known.set(id, decoded.value)
    return [decoded.value]
  })
  const names = attempt("", async () => {
    try {
      return await NodeFsPromises.readdir(directory)
    } catch (cause) {
      if (WorkspaceFailure.codeOf(cause) === "ENOENT") return []
      throw cause
    }
  })
  const all = Effect.flatMap(
    names,
    (names) => Effect.map(Effect.forEach(names.filter(Checkpoints.isId).toSorted(), readOne), (it) => it.flat())
  )
  const remove = (id: string, name = id): Effect.Effect<void, Checkpoints.CheckpointError> => {
    if (!Checkpoints.isId(id)) return new Checkpoints.CheckpointError({ reason: "NotFound", id })
    known.delete(id)
    return attempt(id, () => NodeFsPromises.rm(at(name), { recursive: true, force: true }))
  }
  const prune = Effect.fnUntraced(function*(newest?: Checkpoints.Checkpoint) {
    const now = yield* Clock.currentTimeMillis
    const surplus = Checkpoints.surplus(yield* all, bounds, now, newest)
    yield* Effect.forEach(surplus, ({ id }) => remove(id), { discard: true })
    // of a process that ended in the middle
    const unfinished = (yield* names).filter((name) =>
      name.startsWith(".") && Checkpoints.isId(name.slice(1)) &&
      now - Number.parseInt(name.slice(1, 10), 36) > 3_600_000
    )
    yield* Effect.forEach(unfinished, (name) => remove(name.slice(1), name), { discard: true })
  })

  return Checkpoints.Checkpoints.of({
    save: Effect.fnUntraced(function*(write) {
      yield* prune()
      const checkpoint = yield* describe(write, yield* all)
      const { id } = checkpoint
      const unfinished = at(`.${id}`)
      yield* attempt(id, async () => {
        await NodeFsPromises.mkdir(directory, { recursive: true, mode: 0o700 })
        await NodeFsPromises.mkdir(unfinished, { mode: 0o700 })
        for (const [index, { before }] of write.files.entries()) {
          if (before === undefined || !checkpoint.files[index]!.isKept) continue
          await put(NodePath.join(unfinished, String(index)), FileChange.bytesOf(before))
        }
        await put(NodePath.join(unfinished, "checkpoint.json"), JSON.stringify(checkpoint))
        await NodeFsPromises.rename(unfinished, at(id))
      }).pipe(
        Effect.onError(() =>
          Effect.ignore(attempt(id, () => NodeFsPromises.rm(unfinished, { recursive: true, force: true })))
        )
      )
      known.set(id, checkpoint)
      yield* prune(checkpoint)
      return checkpoint
    }),
    list: (principal) =>
      Effect.map(Effect.andThen(prune(), all), (it) => it.filter((one) => one.principal === principal).reverse()),
    content: Effect.fnUntraced(function*({ files, id }, path) {
      if (!Checkpoints.isId(id)) return yield* new Checkpoints.CheckpointError({ reason: "NotFound", id })
      const index = files.findIndex((it) => it.path === path)
      const file = files[index]
      if (file === undefined || file.before === "") return undefined
      if (!file.isKept) return yield* new Checkpoints.CheckpointError({ reason: "NotKept", id })
      const bytes = yield* attempt(id, () => NodeFsPromises.readFile(at(id, String(index))))
      return FileChange.hashOf(bytes) === file.before
        ? new Uint8Array(bytes)
        : yield* new Checkpoints.CheckpointError({ reason: "Store", id, cause: "the content was changed" })
    }),
    forget: ({ id }) => remove(id)
  })
})

// Utilities

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Checkpoints.Checkpoint))

/** Written anew, for the owner alone, and on the disk when this ends. */
const put = async (path: string, content: string | Uint8Array): Promise<void> => {
  const handle = await NodeFsPromises.open(path, "wx", 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const attempt = <A>(id: string, run: () => Promise<A>): Effect.Effect<A, Checkpoints.CheckpointError> =>
  Effect.tryPromise({
    try: run,
    catch: (cause) =>
      new Checkpoints.CheckpointError({
        reason: WorkspaceFailure.codeOf(cause) === "ENOENT" ? "NotFound" : "Store",
        id,
        cause
      })
  })
