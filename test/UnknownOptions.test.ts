/** Options that do not exist, in public options objects. */
import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerReadOnly as readOnlyLayer } from "../src/assembly/LocalExecutor.ts"
import {
  Approvals,
  ArtifactStore,
  Checkpoints,
  ConfigurationError,
  Dedupe,
  ExecutorSettings,
  Journal,
  LocalExecutor,
  Pools,
  StateStore,
  ToolCall,
  ToolExecutor,
  TurnBudget
} from "../src/index.ts"
import * as Draining from "../src/server/public/Draining.ts"
import * as LiveLog from "../src/server/public/LiveLog.ts"
import * as PendingApprovals from "../src/server/public/PendingApprovals.ts"
import * as Sqlite from "../src/sql/Sqlite.ts"
import * as ArtifactFolder from "../src/tools/public/ArtifactFolder.ts"
import * as CheckpointFolder from "../src/tools/public/CheckpointFolder.ts"
import * as FetchTools from "../src/tools/public/FetchTools.ts"
import * as JournalFile from "../src/tools/public/JournalFile.ts"
import * as TranscriptFolder from "../src/tools/public/TranscriptFolder.ts"
import * as WorkspaceTools from "../src/tools/public/WorkspaceTools.ts"

const kit = Toolkit.make()
const local = (options: unknown) => LocalExecutor.layer(kit, options as never)
const odd = { colour: "red" } as never

const executor = (use: (executor: ToolExecutor.ToolExecutor["Service"]) => Effect.Effect<unknown, unknown, never>) =>
  Layer.effectDiscard(Effect.flatMap(ToolExecutor.ToolExecutor, use)).pipe(Layer.provide(local({})))

const places: ReadonlyArray<readonly [name: string, path: string, layer: Layer.Any]> = [
  ["LocalExecutor.layer", "colour", local(odd)],
  ["LocalExecutor.layerReadOnly", "policy", readOnlyLayer(kit, { policy: {} } as never)],
  ["LocalExecutor.layerGates", "colour", LocalExecutor.layerGates(odd)],
  ["LocalExecutor.layerGates with tools", "tools", LocalExecutor.layerGates({ tools: {} } as never)],
  ["ExecutorSettings.layer", "colour", Layer.provide(local({}), ExecutorSettings.layer(odd))],
  ["output", "output.colour", local({ output: odd })],
  ["dedupe", "colour", local({ dedupe: odd })],
  ["pools", "colour", local({ pools: odd })],
  ["pools.shared", "shared.colour", local({ pools: { shared: odd } })],
  ["turn", "turn.colour", local({ turn: odd })],
  ["Dedupe.layer", "colour", Dedupe.layer(odd)],
  ["Pools.layer", "colour", Pools.layer(odd)],
  ["TurnBudget.layer", "turn.colour", TurnBudget.layer(odd)],
  ["Approvals.layer", "colour", Approvals.layer(odd)],
  ["StateStore.layerMemory", "colour", StateStore.layerMemory(odd)],
  ["Journal.layerMemory", "colour", Journal.layerMemory(odd)],
  ["ArtifactStore.layerMemory", "colour", ArtifactStore.layerMemory(odd)],
  ["Checkpoints.layerMemory", "colour", Checkpoints.layerMemory(odd)],
  ["Sqlite.layer", "colour", Sqlite.layer({ filename: ":memory:", colour: 1 } as never)],
  ["JournalFile.layer", "colour", JournalFile.layer({ path: "/nowhere/x", colour: 1 } as never)],
  ["ArtifactFolder.layer", "colour", ArtifactFolder.layer({ directory: "/nowhere", colour: 1 } as never)],
  ["CheckpointFolder.layer", "colour", CheckpointFolder.layer({ directory: "/nowhere", colour: 1 } as never)],
  ["TranscriptFolder.layer", "colour", TranscriptFolder.layer({ directory: "/nowhere", colour: 1 } as never)],
  ["WorkspaceTools.layer", "colour", WorkspaceTools.make({ root: "/", colour: 1 } as never).layer],
  ["FetchTools.layer", "colour", FetchTools.make(odd).layer],
  ["LiveLog.layer", "colour", LiveLog.layer(odd)],
  ["PendingApprovals.layer", "colour", Layer.provide(PendingApprovals.layer(odd), LiveLog.layer())],
  ["Draining.layer", "colour", Draining.layer(odd)],
  ["process", "colour", executor((it) => Effect.scoped(it.process(odd)))],
  ["process turn", "turn.colour", executor((it) => Effect.scoped(it.process({ turn: odd })))],
  ["fork", "colour", executor((it) => Effect.scoped(it.fork(odd)))],
  ["readOnly", "policy", executor((it) => Effect.scoped(it.readOnly({ policy: {} } as never)))],
  [
    "execute",
    "colour",
    executor((it) =>
      Effect.scoped(Effect.flatMap(it.process(), (process) => process.execute(ToolCall.make("1", "x", {}), odd)))
    )
  ]
]

describe("An option that does not exist", () => {
  for (const [name, path, layer] of places) {
    it.effect(`is an error in ${name}`, () =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Effect.scoped(Layer.build(layer as Layer.Layer<never, unknown>)))
        assert.instanceOf(error, ConfigurationError.ConfigurationError)
        assert.include(error.problems.map((it) => it.path), path)
        assert.include(error.message, "there is no such option")
      }))
  }
})
