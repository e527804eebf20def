/**
 * What was in files before tools wrote to them, kept so that it can be undone.
 *
 * An executor that finds this service in its context keeps the files of every
 * previewed or confirmed write right before it, and notes calls that change
 * things without saying what. Bringing files back is for those who know them
 * (`tools/Undo` for a workspace).
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as FileChange from "../FileChange.ts"

/**
 * Schema of a checkpoint.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Checkpoint = Schema.Struct({
  /** Sorts by age. */
  id: Schema.String,
  principal: Schema.String,
  batch: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  /** Epoch milliseconds. */
  at: Schema.Finite,
  /** Empty: the call changed things, or may have, and did not say which. */
  files: Schema.Array(Schema.Struct({
    path: Schema.String,
    /** SHA-256 of the content before; empty: there was no file. */
    before: Schema.String,
    /** SHA-256 of the content that was written; empty: the file was removed. */
    after: Schema.String,
    /** Bytes of the content before. */
    size: Schema.Finite,
    /** The content before is kept; one over the bound is not. */
    isKept: Schema.Boolean
  }))
})

/**
 * A point to go back to: the files of one write as they were before it.
 *
 * @category models
 * @since 0.1.0
 */
export type Checkpoint = typeof Checkpoint.Type

/**
 * What is kept, and for which call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Write extends Pick<Checkpoint, "principal" | "batch" | "callId" | "tool"> {
  readonly files: ReadonlyArray<FileChange.FileChange>
}

/**
 * Error of a checkpoint that cannot be kept or read.
 *
 * @category errors
 * @since 0.1.0
 */
export class CheckpointError extends Schema.TaggedError<CheckpointError>("effect-tool-executor/CheckpointError")(
  "CheckpointError",
  {
    /** `NotFound`: unknown, forgotten or too old. `NotKept`: the content was over the bound. `Store`: it cannot be reached. */
    reason: Schema.Literals(["NotFound", "NotKept", "Store"]),
    id: Schema.String,
    cause: Schema.optionalKey(Schema.Defect())
  }
) {
  override get message(): string {
    switch (this.reason) {
      case "NotFound":
        return `There is no checkpoint ${this.id}: it is unknown, was undone or is too old.`
      case "NotKept":
        return `Checkpoint ${this.id} does not hold that content: it was too large.`
      case "Store":
        return `The checkpoints cannot be reached.`
    }
  }
}

/**
 * The checkpoints.
 *
 * @category services
 * @since 0.1.0
 */
export class Checkpoints extends Context.Service<Checkpoints, {
  /** Keeps what is there before a write. */
  readonly save: (write: Write) => Effect.Effect<Checkpoint, CheckpointError>
  /** The checkpoints of a principal, newest first. */
  readonly list: (principal: string) => Effect.Effect<ReadonlyArray<Checkpoint>, CheckpointError>
  /** The content of a file of a checkpoint; `undefined` if there was no file. */
  readonly content: (
    checkpoint: Checkpoint,
    path: string
  ) => Effect.Effect<Uint8Array | undefined, CheckpointError>
  /** Forgets a checkpoint: its write did not happen, or is undone. */
  readonly forget: (checkpoint: Checkpoint) => Effect.Effect<void, CheckpointError>
}>()("effect-tool-executor/output/Checkpoints") {}

/**
 * Bounds of what is kept.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Bytes of contents of each principal; its oldest checkpoints go first. Default 100,000,000. */
  readonly maxBytes?: number | undefined
  /**
   * Bytes of contents of all principals together. Where they are reached, a
   * principal has what it keeps already, and contents that need more are not kept
   * (`NotKept`): nobody's make another's go. Default 1,000,000,000.
   */
  readonly maxTotalBytes?: number | undefined
  /** How long a checkpoint is kept. Default 7 days. */
  readonly maxAge?: Duration.Input | undefined
}

/**
 * The bounds with their defaults. A file is kept if it has at most a quarter of
 * a principal's bytes.
 *
 * @category options
 * @since 0.1.0
 */
export const boundsOf = (options?: Options): {
  readonly maxBytes: number
  readonly maxTotalBytes: number
  readonly maxFileBytes: number
  readonly maxAgeMillis: number
} => {
  const maxBytes = options?.maxBytes ?? 100_000_000
  return {
    maxBytes,
    maxTotalBytes: options?.maxTotalBytes ?? 1_000_000_000,
    maxFileBytes: maxBytes / 4,
    maxAgeMillis: Duration.toMillis(Duration.fromInputUnsafe(options?.maxAge ?? "7 days"))
  }
}

/**
 * Gives the checkpoints of writes, for drivers: their ids and hashes, and which
 * contents are to be kept beside what others keep. The ids of one describer sort as
 * they are made.
 *
 * @category constructors
 * @since 0.1.0
 */
export const describer = (
  { maxBytes, maxFileBytes, maxTotalBytes }: ReturnType<typeof boundsOf>
): (write: Write, all: ReadonlyArray<Checkpoint>) => Effect.Effect<Checkpoint> => {
  let last = 0
  return Effect.fnUntraced(function*({ files, ...of }, all) {
    const at = yield* Clock.currentTimeMillis
    const { uuidV4 } = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
    const random = yield* uuidV4()
    const inOrder = (++last % 36 ** 5).toString(36).padStart(5, "0")
    const room = Math.min(maxBytes, maxTotalBytes - bytesOfAll(all.filter((it) => it.principal !== of.principal)))
    let bytes = 0
    return {
      ...of,
      id: `${at.toString(36).padStart(9, "0")}-${inOrder}-${random.slice(0, 8)}`,
      at,
      files: files.map(({ after, before, path }) => {
        const size = before === undefined ? 0 : FileChange.bytesOf(before).length
        const hashes = { before: FileChange.hashOf(before), after: FileChange.hashOf(after) }
        const isKept = size === 0 || (size <= maxFileBytes && bytes + size <= room)
        if (isKept) bytes += size
        return { path, ...hashes, size, isKept }
      })
    }
  })
}

/**
 * Tells whether a text may be the id of a checkpoint.
 *
 * @category checking
 * @since 0.1.0
 */
export const isId = (text: string): boolean => /^[0-9a-z]{9}-[0-9a-z]{5}-[0-9a-f]{8}$/.test(text)

/**
 * Gives the checkpoints that have to go, oldest first, so that each principal is
 * within its bounds. Of all bytes a principal has what others leave: it alone gives
 * way to what it has just kept (`newest`).
 *
 * @category checking
 * @since 0.1.0
 */
export const surplus = (
  all: ReadonlyArray<Checkpoint>,
  bounds: ReturnType<typeof boundsOf>,
  now: number,
  newest?: Checkpoint
): ReadonlyArray<Checkpoint> => {
  const bytes = new Map<string, number>()
  const counts = new Map<string, number>()
  for (const it of all) {
    bytes.set(it.principal, (bytes.get(it.principal) ?? 0) + bytesOf(it))
    counts.set(it.principal, (counts.get(it.principal) ?? 0) + 1)
  }
  const left = bounds.maxTotalBytes - bytesOfAll(all.filter((it) => it.principal !== newest?.principal))
  return all.toSorted((a, b) => a.id < b.id ? -1 : 1).filter((it) => {
    const { principal } = it
    const maxBytes = principal === newest?.principal ? Math.min(bounds.maxBytes, left) : bounds.maxBytes
    const isOver = now - it.at >= bounds.maxAgeMillis || (bytes.get(principal)! > maxBytes && bytesOf(it) > 0) ||
      counts.get(principal)! > maxCount
    if (!isOver) return false
    bytes.set(principal, bytes.get(principal)! - bytesOf(it))
    counts.set(principal, counts.get(principal)! - 1)
    return true
  })
}

/**
 * Layer that keeps checkpoints in memory.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory = (options?: Options): Layer.Layer<Checkpoints> =>
  Layer.sync(Checkpoints, () => {
    const bounds = boundsOf(options)
    const describe = describer(bounds)
    const kept = new Map<string, { readonly checkpoint: Checkpoint; readonly contents: Map<string, Uint8Array> }>()
    const find = ({ id }: Checkpoint) => {
      const found = kept.get(id)
      return found === undefined ? Effect.fail(new CheckpointError({ reason: "NotFound", id })) : Effect.succeed(found)
    }
    const all = () => Array.from(kept.values(), ({ checkpoint }) => checkpoint)
    const prune = (newest?: Checkpoint) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const { id } of surplus(all(), bounds, now, newest)) kept.delete(id)
      })
    return Checkpoints.of({
      save: Effect.fnUntraced(function*(write) {
        yield* prune()
        const checkpoint = yield* describe(write, all())
        const contents = new Map<string, Uint8Array>()
        for (const [index, { before, path }] of write.files.entries()) {
          // the caller may go on with its array
          if (before !== undefined && checkpoint.files[index]!.isKept) {
            contents.set(path, FileChange.bytesOf(before).slice())
          }
        }
        kept.set(checkpoint.id, { checkpoint, contents })
        yield* prune(checkpoint)
        return checkpoint
      }),
      list: (principal) => Effect.map(prune(), () => all().filter((it) => it.principal === principal).reverse()),
      content: Effect.fnUntraced(function*(checkpoint, path) {
        const { contents } = yield* find(checkpoint)
        const file = checkpoint.files.find((it) => it.path === path)
        if (file?.isKept === false) return yield* new CheckpointError({ reason: "NotKept", id: checkpoint.id })
        return contents.get(path)
      }),
      forget: (checkpoint) => Effect.sync(() => void kept.delete(checkpoint.id))
    })
  })

// Utilities

/** So many calls of a principal are remembered, those without contents included. */
const maxCount = 1_000

const bytesOfAll = (all: ReadonlyArray<Checkpoint>): number => all.reduce((sum, it) => sum + bytesOf(it), 0)

const bytesOf = ({ files }: Checkpoint): number => files.reduce((sum, it) => sum + (it.isKept ? it.size : 0), 0)
