/**
 * Checkpoints in PostgreSQL or SQLite: another process can undo what this one did, and every process of the database
 * keeps one set of bounds with the others.
 *
 * A checkpoint is stored before its write. The store runs on its own connection (`sql/OwnConnection`): a rollback of
 * the host's transaction does not remove checkpoints.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MigrationError } from "effect/sql/Migrator"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Checkpoints from "../core/output/Checkpoints.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Holdings from "./Holdings.ts"

/** Layer that keeps checkpoints in the database of a client; brings its schema up to date first. */
export const layer = (
  options?: Checkpoints.Options
): Layer.Layer<
  Checkpoints.Checkpoints,
  ConfigurationError | MigrationError | SqlError,
  SqlClient.SqlClient
> => Layer.effect(Checkpoints.Checkpoints, make(options))

/** Creates the service in the database of the client. */
export const make = Effect.fnUntraced(function*(
  options?: Checkpoints.Options
): Effect.fn.Return<
  Checkpoints.Checkpoints["Service"],
  ConfigurationError | MigrationError | SqlError,
  SqlClient.SqlClient
> {
  const bounds = yield* Checkpoints.boundsOf(options)
  const holdings = yield* Holdings.make("checkpoints", bounds.maxAgeMillis)
  const describe = Checkpoints.describer(bounds)

  return Checkpoints.Checkpoints.of({
    save: Effect.fnUntraced(function*(write) {
      const decide = Effect.fnUntraced(function*({ others, own }: Holdings.There) {
        const checkpoint = yield* describe(write, { othersBytes: others, newestId: own.at(-1)?.id })
        const { at, id } = checkpoint
        for (const [item, { before }] of write.files.entries()) {
          if (before === undefined || !checkpoint.files[item]!.isKept) continue
          yield* holdings.write(id, item, FileChange.bytesOf(before))
        }
        const entry = { id, at, size: Checkpoints.bytesOf(checkpoint), about: Checkpoints.encode(checkpoint) }
        const all = [...own, entry].map(({ id, size }) => ({ id, size, bytes: size }))
        return { entry, gone: Checkpoints.surplus(all, others, bounds) }
      })
      const { about } = yield* holdings.add(write.principal, yield* Clock.currentTimeMillis, decide)
      return yield* decode(about)
    }, failing("")),
    list: (principal) =>
      Effect.gen(function*() {
        const all = yield* holdings.list(principal)
        const now = yield* Clock.currentTimeMillis
        const there = all.filter(({ at }) => !Checkpoints.isOver(at, now, bounds))
        const checkpoints = yield* Effect.forEach(there, ({ about }) => decode(about))
        return checkpoints.sort((a, b) => a.id < b.id ? 1 : -1)
      }).pipe(failing("")),
    content: ({ files, id, principal }, path) =>
      Effect.gen(function*() {
        if (!Checkpoints.isId(id)) return yield* new Checkpoints.CheckpointError({ reason: "NotFound", id })
        const item = files.findIndex((it) => it.path === path)
        const file = files[item]
        const found = yield* holdings.read(principal, id, { item, from: 0, to: file?.isKept === true ? file.size : 0 })
        if (found === undefined || Checkpoints.isOver(found.at, yield* Clock.currentTimeMillis, bounds)) {
          return yield* new Checkpoints.CheckpointError({ reason: "NotFound", id })
        }
        if (file === undefined || file.before === "") return undefined
        if (!file.isKept) return yield* new Checkpoints.CheckpointError({ reason: "NotKept", id })
        return FileChange.hashOf(found.bytes) === file.before
          ? found.bytes
          : yield* new Checkpoints.CheckpointError({ reason: "Store", id, cause: "the content was changed" })
      }).pipe(failing(id)),
    forget: ({ id, principal }) => Checkpoints.isId(id) ? failing(id)(holdings.remove(principal, id)) : Effect.void,
    prune: Effect.flatMap(Clock.currentTimeMillis, holdings.prune).pipe(failing(""))
  })
})

const decode = (text: string) => Effect.fromResult(Checkpoints.decode(text))

const failing = (id: string) =>
<A, R>(
  effect: Effect.Effect<A, Checkpoints.CheckpointError | SqlError | Error, R>
): Effect.Effect<A, Checkpoints.CheckpointError, R> =>
  Effect.mapError(
    effect,
    (cause) =>
      cause instanceof Checkpoints.CheckpointError
        ? cause
        : new Checkpoints.CheckpointError({ reason: "Store", id, cause })
  )
