/**
 * Checkpoints in a folder, so that another process can undo what this one did.
 *
 * The folder lies outside the root that tools work in, and only its owner can read it (mode 0700, files 0600). A
 * checkpoint is one folder, there as a whole or not at all.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as Checkpoints from "../../core/output/Checkpoints.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** Where checkpoints are kept, and how many. */
export interface Options extends Checkpoints.Options {
  /** Path of the folder; made when the first checkpoint is kept. */
  readonly directory: string
  /** The root that tools work in; the folder must not lie in it. */
  readonly root: string
}

/**
 * Layer that keeps checkpoints in a folder; fails with `ConfigurationError` where that lies in the root, or around it.
 */
export const layer = (options: Options): Layer.Layer<Checkpoints.Checkpoints, ConfigurationError> =>
  Layer.effect(Checkpoints.Checkpoints, make(options))

/** Creates the service; fails with `ConfigurationError` where the folder lies in the root, or around it. */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<Checkpoints.Checkpoints["Service"], ConfigurationError> {
  const bounds = yield* Checkpoints.boundsOf(options)
  const directory = yield* PrivateFolder.locate("CheckpointFolder", options)
  const describe = Checkpoints.describer(bounds)
  // one at a time: evictions depend on the existing checkpoints
  const turns = yield* Semaphore.make(1)
  // what was read does not change
  const known = new Map<string, Checkpoints.Checkpoint>()
  const at = (...names: ReadonlyArray<string>) => NodePath.join(directory, ...names)

  /** Nothing if another process is just removing it, or it is not a checkpoint. */
  const readOne = Effect.fnUntraced(function*(id: string) {
    const found = known.get(id)
    if (found !== undefined) return [found]
    const text = yield* Effect.option(attempt(id, () => NodeFsPromises.readFile(at(id, "checkpoint.json"), "utf8")))
    if (text._tag === "None") return []
    const decoded = Checkpoints.decode(text.value)
    if (decoded._tag === "Failure" || decoded.success.id !== id) return []
    known.set(id, decoded.success)
    return [decoded.success]
  })
  const remove = (id: string, name = id): Effect.Effect<void, Checkpoints.CheckpointError> => {
    known.delete(id)
    return attempt(id, () => PrivateFolder.remove(at(name)))
  }
  /** Removes what is past its age; gives that and the rest, oldest first. */
  const prune = Effect.fnUntraced(function*(now: number) {
    const names = yield* attempt("", () => PrivateFolder.namesIn(directory))
    const there = new Set(names.filter(Checkpoints.isId).toSorted())
    // others remove, too
    for (const id of known.keys()) if (!there.has(id)) known.delete(id)
    const all = (yield* Effect.forEach(there, readOne)).flat()
    const [rest, gone] = partition(all, (it) => Checkpoints.isOver(it.at, now, bounds))
    yield* Effect.forEach(gone, ({ id }) => remove(id), { discard: true })
    // of a process that ended in the middle
    const unfinished = names.filter((name) =>
      name.startsWith(".") && Checkpoints.isId(name.slice(1)) &&
      Math.abs(now - Checkpoints.timeOf(name.slice(1))) > 3_600_000
    )
    yield* Effect.forEach(unfinished, (name) => remove(name.slice(1), name), { discard: true })
    return { gone, rest }
  })
  const save = Effect.fnUntraced(function*(write: Checkpoints.Write) {
    const { rest } = yield* prune(yield* Clock.currentTimeMillis)
    const [others, own] = partition(rest, (it) => it.principal === write.principal)
    const othersBytes = others.reduce((sum, it) => sum + Checkpoints.bytesOf(it), 0)
    const checkpoint = yield* describe(write, { othersBytes, newestId: rest.at(-1)?.id })
    const { id } = checkpoint
    const unfinished = at(`.${id}`)
    yield* attempt(id, async () => {
      await PrivateFolder.makeOwn(directory)
      await PrivateFolder.make(unfinished)
      for (const [index, { before }] of write.files.entries()) {
        if (before === undefined || !checkpoint.files[index]!.isKept) continue
        await PrivateFolder.write(NodePath.join(unfinished, String(index)), FileChange.bytesOf(before))
      }
      await PrivateFolder.write(NodePath.join(unfinished, "checkpoint.json"), Checkpoints.encode(checkpoint))
      await PrivateFolder.publish(unfinished, at(id))
    }).pipe(
      Effect.onError(() => Effect.ignore(attempt(id, () => PrivateFolder.remove(unfinished))))
    )
    known.set(id, checkpoint)
    const sized = [...own, checkpoint].map((it) => ({ id: it.id, bytes: Checkpoints.bytesOf(it) }))
    yield* Effect.forEach(Checkpoints.surplus(sized, othersBytes, bounds), ({ id }) => remove(id), { discard: true })
    return checkpoint
  })
  const alone = <A, E>(effect: Effect.Effect<A, E>) => turns.withPermit(Effect.uninterruptible(effect))
  const pruned = alone(Effect.flatMap(Clock.currentTimeMillis, prune))

  return Checkpoints.Checkpoints.of({
    save: (write) => alone(save(write)),
    list: (principal) => Effect.map(pruned, ({ rest }) => rest.filter((it) => it.principal === principal).reverse()),
    content: Effect.fnUntraced(function*({ files, id }, path) {
      if (!Checkpoints.isId(id)) return yield* new Checkpoints.CheckpointError({ reason: "NotFound", id })
      yield* attempt(id, () => NodeFsPromises.access(at(id)))
      const index = files.findIndex((it) => it.path === path)
      const file = files[index]
      if (file === undefined || file.before === "") return undefined
      if (!file.isKept) return yield* new Checkpoints.CheckpointError({ reason: "NotKept", id })
      const bytes = yield* attempt(id, () => NodeFsPromises.readFile(at(id, String(index))))
      return FileChange.hashOf(bytes) === file.before
        ? new Uint8Array(bytes)
        : yield* new Checkpoints.CheckpointError({ reason: "Store", id, cause: "the content was changed" })
    }),
    forget: ({ id }) =>
      Checkpoints.isId(id) ? alone(remove(id)) : new Checkpoints.CheckpointError({ reason: "NotFound", id }),
    prune: Effect.map(pruned, ({ gone }) => gone.length)
  })
})

/** Those of which it does not hold, and those of which it does. */
const partition = <A>(all: ReadonlyArray<A>, holds: (one: A) => boolean) =>
  [all.filter((it) => !holds(it)), all.filter(holds)] as const

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
