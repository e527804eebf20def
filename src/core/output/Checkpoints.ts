/**
 * What was in files before tools wrote to them, kept so that it can be undone.
 *
 * An executor that finds this service in its context keeps the files of every previewed or confirmed write right before
 * it, and notes calls that change things without saying what. Bringing files back is for those who know them
 * (`tools/workspace/Undo` for a workspace).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Surplus from "../../internal/surplus.ts"
import * as Versioned from "../../internal/versioned.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import * as FileChange from "../vocabulary/FileChange.ts"

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

/** A point to go back to: the files of one write as they were before it. */
export type Checkpoint = typeof Checkpoint.Type

/** The stored text of a checkpoint: its JSON, with a version. */
export const encode = (checkpoint: Checkpoint): string => Versioned.encode(1, JSON.stringify(checkpoint))

/** The checkpoint of a stored text, or what is wrong with it. */
export const decode = (text: string): Result.Result<Checkpoint, Error> => Versioned.decode(readers, text)

const readers = { 1: Schema.decodeUnknownResult(Checkpoint) }

/** What is kept, and for which call. */
export interface Write extends Pick<Checkpoint, "principal" | "batch" | "callId" | "tool"> {
  readonly files: ReadonlyArray<FileChange.FileChange>
}

/** Error of a checkpoint that cannot be kept or read. */
export class CheckpointError extends Schema.TaggedError<CheckpointError>("effect-tool-executor/CheckpointError")(
  "CheckpointError",
  {
    /** `NotFound`: unknown, forgotten or too old. `NotKept`: the content was too large. `Store`: the store failed. */
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

export class Checkpoints extends Context.Service<Checkpoints, {
  /** Keeps what is there before a write, whole or not at all; the principal's oldest give way where they have to. */
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
  /**
   * Forgets what is past its age; gives the number of checkpoints dropped. A driver does so whenever something is kept:
   * call this for a store that is no longer written to.
   */
  readonly prune: Effect.Effect<number, CheckpointError>
}>()("effect-tool-executor/output/Checkpoints") {}

/** Bounds of what is kept, whichever driver keeps it. */
export interface Options {
  /** Bytes of contents of each principal; its oldest checkpoints go first. Default 100,000,000. */
  readonly maxBytes?: number | undefined
  /** Checkpoints of each principal, those without contents included; its oldest go first. Default 1,000. */
  readonly maxCount?: number | undefined
  /**
   * Bytes of contents of all principals together. Where they are reached, a principal has what it keeps already, and
   * contents that need more are not kept (`NotKept`): no principal evicts another's. Default 1,000,000,000.
   */
  readonly maxTotalBytes?: number | undefined
  /** How long a checkpoint is kept. Default 7 days. */
  readonly maxAge?: Duration.Input | undefined
}

export const defaults = {
  maxBytes: 100_000_000,
  maxCount: 1_000,
  maxTotalBytes: 1_000_000_000,
  maxAge: "7 days"
} as const satisfies Options

/** The bounds in plain numbers. */
export interface Bounds {
  readonly maxBytes: number
  readonly maxCount: number
  readonly maxTotalBytes: number
  readonly maxAgeMillis: number
}

/** Reads bounds, for drivers; fails with everything that is wrong with them. */
export const boundsOf = (options: Options = {}): Effect.Effect<Bounds, ConfigurationError> =>
  readOptions("Checkpoints", (read) => ({
    maxBytes: read.atLeast("maxBytes", options.maxBytes ?? defaults.maxBytes, 0),
    // what is about to be written has to be kept
    maxCount: read.atLeast("maxCount", options.maxCount ?? defaults.maxCount, 1),
    maxTotalBytes: read.atLeast("maxTotalBytes", options.maxTotalBytes ?? defaults.maxTotalBytes, 0),
    maxAgeMillis: read.millis("maxAge", options.maxAge ?? defaults.maxAge)
  }))

/**
 * Gives the checkpoints of writes, for drivers: their ids and hashes, and which contents are kept: a content of at most
 * a quarter of a principal's bytes, while other principals' bytes leave room. Ids sort as they are made, also behind
 * those that are there and where the clock was set back.
 */
export const describer = (
  { maxBytes, maxTotalBytes }: Bounds
): (
  write: Write,
  there: { readonly othersBytes: number; readonly newestId: string | undefined }
) => Effect.Effect<Checkpoint> => {
  let order = 0
  let latest = 0
  return Effect.fnUntraced(function*({ files, ...of }, { newestId, othersBytes }) {
    const at = yield* Clock.currentTimeMillis
    const { uuidV4 } = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
    const random = yield* uuidV4()
    latest = Math.max(at, latest, newestId === undefined ? 0 : timeOf(newestId))
    // another process may have kept something in this very millisecond
    if (newestId !== undefined && timeOf(newestId) === latest) order = Math.max(order, orderOf(newestId))
    const inOrder = (++order % 36 ** 5).toString(36).padStart(5, "0")
    const room = Math.min(maxBytes, maxTotalBytes - othersBytes)
    let bytes = 0
    return {
      ...of,
      id: `${latest.toString(36).padStart(9, "0")}-${inOrder}-${random.slice(0, 8)}`,
      at,
      files: files.map(({ after, before, path }) => {
        const size = before === undefined ? 0 : FileChange.bytesOf(before).length
        const hashes = { before: FileChange.hashOf(before), after: FileChange.hashOf(after) }
        const isKept = size === 0 || (size <= maxBytes / 4 && bytes + size <= room)
        if (isKept) bytes += size
        return { path, ...hashes, size, isKept }
      })
    }
  })
}

/** Tells whether a text may be the id of a checkpoint. */
export const isId = (text: string): boolean => /^[0-9a-z]{9}-[0-9a-z]{5}-[0-9a-f]{8}$/.test(text)

/** The time that an id begins with, in epoch milliseconds. */
export const timeOf = (id: string): number => Number.parseInt(id.slice(0, 9), 36)

/** Bytes of contents that a checkpoint holds. */
export const bytesOf = ({ files }: Pick<Checkpoint, "files">): number =>
  files.reduce((sum, it) => sum + (it.isKept ? it.size : 0), 0)

/**
 * Gives the checkpoints of a principal to evict, oldest first, given the bytes of other principals. `own` are all it
 * has, in whatever order.
 */
export const surplus = <A extends { readonly id: string; readonly bytes: number }>(
  own: ReadonlyArray<A>,
  othersBytes: number,
  { maxBytes, maxCount, maxTotalBytes }: Bounds
): ReadonlyArray<A> =>
  Surplus.surplus(
    own.toSorted((a, b) => a.id < b.id ? -1 : 1),
    (it) => it.bytes,
    Math.min(maxBytes, maxTotalBytes - othersBytes),
    maxCount
  )

/**
 * Whether a checkpoint kept at this time has expired. A clock that was set back does not keep checkpoints for long: one
 * from a distant future has expired as well.
 */
export const isOver = (at: number, now: number, { maxAgeMillis }: Bounds): boolean => Math.abs(now - at) >= maxAgeMillis

/** Layer that keeps checkpoints in memory. */
export const layerMemory = (options?: Options): Layer.Layer<Checkpoints, ConfigurationError> =>
  Layer.effect(Checkpoints, Effect.map(boundsOf(options), memory))

const orderOf = (id: string): number => Number.parseInt(id.slice(10, 15), 36)

interface Kept {
  readonly id: string
  readonly bytes: number
  readonly checkpoint: Checkpoint
  readonly contents: ReadonlyMap<string, Uint8Array>
}

const memory = (bounds: Bounds): Checkpoints["Service"] => {
  const describe = describer(bounds)
  // in order of their ids
  const kept = new Map<string, Kept>()
  const ownOf = (principal: string) => Array.from(kept.values()).filter((it) => it.checkpoint.principal === principal)
  const prune = Effect.map(Clock.currentTimeMillis, (now) => {
    const before = kept.size
    for (const { checkpoint: { at, id } } of kept.values()) if (isOver(at, now, bounds)) kept.delete(id)
    return before - kept.size
  })
  return Checkpoints.of({
    save: Effect.fnUntraced(function*(write) {
      yield* prune
      const sum = (all: Iterable<Kept>) => Array.from(all).reduce((bytes, it) => bytes + it.bytes, 0)
      const othersBytes = sum(kept.values()) - sum(ownOf(write.principal))
      const checkpoint = yield* describe(write, { othersBytes, newestId: undefined })
      const contents = new Map<string, Uint8Array>()
      for (const [index, { before, path }] of write.files.entries()) {
        // the caller may reuse its array
        if (before !== undefined && checkpoint.files[index]!.isKept) {
          contents.set(path, FileChange.bytesOf(before).slice())
        }
      }
      const { id } = checkpoint
      kept.set(id, { id, bytes: bytesOf(checkpoint), checkpoint, contents })
      for (const { id } of surplus(ownOf(write.principal), othersBytes, bounds)) kept.delete(id)
      return checkpoint
    }),
    list: (principal) => Effect.map(prune, () => ownOf(principal).map((it) => it.checkpoint).reverse()),
    content: Effect.fnUntraced(function*({ files, id }, path) {
      const found = kept.get(id)
      if (found === undefined) return yield* new CheckpointError({ reason: "NotFound", id })
      const file = files.find((it) => it.path === path)
      if (file?.isKept === false) return yield* new CheckpointError({ reason: "NotKept", id })
      return found.contents.get(path)
    }),
    forget: ({ id }) => Effect.sync(() => void kept.delete(id)),
    prune
  })
}
