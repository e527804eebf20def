/** The contract of directories, over one process. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import { Checkpoints, Journal } from "../../src/index.ts"
import * as OperationStore from "../../src/server/OperationStore.ts"
import * as Server from "../../src/server/Server.ts"
import { SessionDirectory } from "../../src/server/SessionDirectory.ts"
import * as Undoing from "../../src/server/Undoing.ts"
import * as WaveStore from "../../src/server/WaveStore.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { suite } from "../support/directoryContract.ts"
import { Subject, type World } from "../support/directoryWorld.ts"
import * as Postgres from "../support/Postgres.ts"

/** Sessions of this process, which stay open. */
const open = Layer.effect(
  Subject,
  Effect.map(SessionDirectory, (directory) => Subject.of({ directories: [directory], between: () => Effect.void }))
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
    Layer.provide(KeyValueStore.layerSql())
  )
).pipe(Layer.provide(Postgres.client), Layer.provide(Postgres.layer))

suite(
  "a directory over one process, in memory",
  (world, folder) => open.pipe(Layer.provide(executors(world, folder)), Layer.provide(inMemory))
)

suite(
  "a directory over one process, in PostgreSQL",
  (world, folder) => open.pipe(Layer.provide(executors(world, folder)), Layer.provide(inPostgres))
)
