/**
 * Artifacts in PostgreSQL or SQLite: they outlast the process that made them, and every process of the database keeps
 * one set of bounds with the others.
 *
 * The store runs on its own connection (`sql/OwnConnection`): a rollback of the host's transaction does not remove
 * payloads.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MigrationError } from "effect/sql/Migrator"
import type * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ArtifactId from "../internal/artifactId.ts"
import { bytesOf, keyOf, textOf, widthOf } from "../internal/textBytes.ts"
import * as Holdings from "./Holdings.ts"

/** Layer that keeps artifacts in the database of a client; brings its schema up to date first. */
export const layer = (
  options?: ArtifactStore.Options
): Layer.Layer<
  ArtifactStore.ArtifactStore,
  ConfigurationError | MigrationError | SqlError,
  SqlClient.SqlClient
> => Layer.effect(ArtifactStore.ArtifactStore, make(options))

/** Creates the store in the database of the client. */
export const make = Effect.fnUntraced(function*(
  options?: ArtifactStore.Options
): Effect.fn.Return<
  ArtifactStore.ArtifactStore["Service"],
  ConfigurationError | MigrationError | SqlError,
  SqlClient.SqlClient
> {
  const bounds = yield* ArtifactStore.boundsOf(options)
  const holdings = yield* Holdings.make("artifacts", bounds.timeToLiveMillis)
  const makeId = ArtifactId.maker()

  return ArtifactStore.ArtifactStore.of({
    put: Effect.fnUntraced(function*({ batch, principal }, payload) {
      const at = yield* Clock.currentTimeMillis
      const [chars, width] = [payload.length, widthOf(payload)]
      const id = makeId({ at, chars, width })
      const decide = ({ others, own }: Holdings.There) =>
        Effect.map(ArtifactStore.fit(chars, others, bounds), () => {
          const entry = { id, at, size: chars, about: keyOf(batch) }
          const all = [...own, entry].map(({ id, size }) => ({ id, size, chars: size }))
          return { entry, gone: ArtifactStore.surplus(all, others, bounds) }
        })
      yield* holdings.add(principal, at, decide, holdings.write(id, 0, bytesOf(payload, width)))
      return { id, chars }
    }, failing("")),
    read: (owner, id, range) =>
      Effect.gen(function*() {
        const said = ArtifactId.read(id)
        if (said === undefined) return yield* new ArtifactStore.ArtifactError({ reason: "NotFound", id })
        const { chars, width } = said
        const [start, end] = ArtifactStore.partOf(range, chars)
        const found = yield* holdings.read(owner.principal, id, { item: 0, from: start * width, to: end * width })
        if (found === undefined || found.about !== keyOf(owner.batch)) {
          return yield* new ArtifactStore.ArtifactError({ reason: "NotFound", id })
        }
        if (ArtifactStore.isOver(found.at, yield* Clock.currentTimeMillis, bounds)) {
          return yield* new ArtifactStore.ArtifactError({ reason: "Expired", id })
        }
        return { text: textOf(found.bytes, width), chars }
      }).pipe(failing(id)),
    prune: Effect.flatMap(Clock.currentTimeMillis, holdings.prune).pipe(failing(""))
  })
})

const failing = (id: string) =>
<A, R>(
  effect: Effect.Effect<A, ArtifactStore.ArtifactError | SqlError, R>
): Effect.Effect<A, ArtifactStore.ArtifactError, R> =>
  Effect.mapError(
    effect,
    (cause) => isSqlError(cause) ? new ArtifactStore.ArtifactError({ reason: "StoreFailed", id, cause }) : cause
  )
