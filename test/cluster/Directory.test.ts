/** The contract of directories, over the only runner of a cluster: sessions leave memory between two steps. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as Cluster from "../../src/cluster/Cluster.ts"
import * as SessionRegistry from "../../src/core/store/SessionRegistry.ts"
import { Checkpoints, Journal } from "../../src/index.ts"
import * as Server from "../../src/server/api/Server.ts"
import { RunnerStatus } from "../../src/server/live/RunnerStatus.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as Undoing from "../../src/server/records/Undoing.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import { suite } from "../support/directoryContract.ts"
import { eventually, Subject } from "../support/directoryWorld.ts"

const subject = Layer.effect(
  Subject,
  Effect.gen(function*() {
    const { now } = yield* RunnerStatus
    // a session that somebody reads stays
    const left = Effect.timeoutOption(eventually(() => now, ({ sessions }) => sessions === 0), "300 millis")
    return Subject.of({ directories: [yield* SessionDirectory], between: () => Effect.asVoid(left) })
  })
)

const stores = Layer.mergeAll(
  Journal.layerMemory(),
  WaveStore.layerMemory(),
  OperationStore.layerMemory(),
  TranscriptStore.layerMemory(),
  SessionRegistry.layerMemory()
)

/** Without a database, lists have what is in memory. */
suite(
  "a directory over the only runner of a cluster",
  (world, folder) =>
    subject.pipe(
      Layer.provide(Cluster.layerSingle({ linger: "10 millis" })),
      Layer.provide(Server.layerExecutors()),
      Layer.provide([world.layer, Undoing.layer({ root: folder })]),
      Layer.provide(Checkpoints.layerMemory()),
      Layer.provide(stores)
    ),
  { only: (name) => !/^(waves|conversations) are listed/.test(name) }
)
