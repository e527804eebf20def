/** The contract of directories, over one process. */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as TranscriptStore from "../../../src/agent/TranscriptStore.ts"
import { Checkpoints, Journal } from "../../../src/index.ts"
import * as Server from "../../../src/server/api/Server.ts"
import * as OperationStore from "../../../src/server/operations/OperationStore.ts"
import * as Undoing from "../../../src/server/records/Undoing.ts"
import { SessionDirectory } from "../../../src/server/sessions/SessionDirectory.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import * as WaveStore from "../../../src/server/waves/WaveStore.ts"
import * as SqlJournal from "../../../src/sql/SqlJournal.ts"
import * as SqlOwnRows from "../../../src/sql/SqlOwnRows.ts"
import * as SqlStateStore from "../../../src/sql/SqlStateStore.ts"
import { suite } from "../../support/directoryContract.ts"
import { Subject, type World } from "../../support/directoryWorld.ts"
import * as Postgres from "../../support/Postgres.ts"

/** Sessions that stay open. */
const open = Layer.effect(
  Subject,
  Effect.map(SessionDirectory, (directory) => Subject.of({ directories: [directory], between: () => Effect.void }))
)

/** Sessions that are closed and opened again between two steps; requests to them wait meanwhile. */
const reopened = Layer.effect(
  Subject,
  Effect.gen(function*() {
    const { close, idle, open } = yield* SessionHost
    const directory = yield* SessionDirectory
    const isOpen = Latch.makeUnsafe(true)
    const held = new Proxy(directory, {
      get: (target, name): unknown => {
        const of: unknown = Reflect.get(target, name)
        return typeof of !== "function" ?
          of :
          (...args: ReadonlyArray<unknown>) =>
            Effect.andThen(isOpen.await, Effect.suspend(() => of(...args) as Effect.Effect<unknown, unknown>))
      }
    })
    return Subject.of({
      directories: [held],
      between: Effect.fnUntraced(function*(owner) {
        yield* idle(owner)
        yield* isOpen.close
        yield* close(owner)
        yield* open(owner)
        yield* idle(owner)
        yield* isOpen.open
      }, Effect.orDie)
    })
  })
)

const executors = ({ layer }: World, folder: string) =>
  Server.layerExecutors().pipe(
    Layer.provide([layer, Undoing.layer({ root: folder })]),
    Layer.provide(Checkpoints.layerMemory())
  )

const inMemory = Layer.mergeAll(
  Journal.layerMemory(),
  WaveStore.layerMemory(),
  OperationStore.layerMemory(),
  TranscriptStore.layerMemory()
)

const inPostgres = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer(),
  Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
    Layer.provide(SqlOwnRows.layer)
  )
).pipe(Layer.provide(Postgres.client), Layer.provide(Postgres.layer))

suite(
  "a directory over one process, in memory",
  (world, folder) => open.pipe(Layer.provide(executors(world, folder)), Layer.provide(inMemory))
)

/** One process lists the waves that it has in memory. */
const only = (name: string) => name !== "waves are listed to their user and to those who look after them"

suite(
  "a directory over one process that closes sessions, in memory",
  (world, folder) => reopened.pipe(Layer.provide(executors(world, folder)), Layer.provide(inMemory)),
  { only }
)

suite(
  "a directory over one process that closes sessions, in PostgreSQL",
  (world, folder) => reopened.pipe(Layer.provide(executors(world, folder)), Layer.provide(inPostgres)),
  { only }
)
