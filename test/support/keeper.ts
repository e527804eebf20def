/**
 * Keeps artifacts and checkpoints as fast as it can until it is killed:
 * `node keeper.ts FOLDER KIND`. What it says it has kept must be there afterwards.
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
// the modules themselves: it is started again and again
import * as ArtifactStore from "../../src/core/output/ArtifactStore.ts"
import * as Checkpoints from "../../src/core/output/Checkpoints.ts"
import * as SqlArtifacts from "../../src/sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../../src/sql/SqlCheckpoints.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as ArtifactFolder from "../../src/tools/folders/ArtifactFolder.ts"
import * as CheckpointFolder from "../../src/tools/folders/CheckpointFolder.ts"

type Stores = ArtifactStore.ArtifactStore | Checkpoints.Checkpoints

const bounds = { maxCount: 5 }

/** Stores below a folder whose `root` is there. */
export const storesIn = {
  folder: (folder: string): Layer.Layer<Stores, unknown> =>
    Layer.merge(
      ArtifactFolder.layer({ ...bounds, directory: `${folder}/artifacts` }),
      CheckpointFolder.layer({ ...bounds, directory: `${folder}/checkpoints`, root: `${folder}/root` })
    ),
  sqlite: (folder: string): Layer.Layer<Stores, unknown> =>
    Layer.merge(SqlArtifacts.layer(bounds), SqlCheckpoints.layer(bounds)).pipe(
      Layer.provide(Sqlite.layer({ filename: `${folder}/kept.db` }))
    )
} as const

/** A text that shows where a part of it is missing. */
export const textOf = (n: number): string => `${n} `.repeat(20_000)

/** What the keeper has kept, one a line. */
export interface Line {
  readonly n: number
  readonly artifact: string
  readonly checkpoint: Checkpoints.Checkpoint
}

const keep = Effect.gen(function*() {
  const artifacts = yield* ArtifactStore.ArtifactStore
  const checkpoints = yield* Checkpoints.Checkpoints
  for (let n = 0;; n++) {
    const { id } = yield* artifacts.put({ principal: "p", batch: "b" }, textOf(n))
    const checkpoint = yield* checkpoints.save({
      principal: "p",
      batch: "b",
      callId: `${n}`,
      tool: "t",
      files: [{ path: "a.txt", before: textOf(n), after: "" }, { path: "b.txt", before: undefined, after: "" }]
    })
    yield* Console.log(JSON.stringify({ n, artifact: id, checkpoint } satisfies Line))
  }
})

const [, main, folder, kind] = process.argv
if (/keeper\.[jt]s$/.test(main ?? "") && folder !== undefined && (kind === "folder" || kind === "sqlite")) {
  await Effect.runPromise(Effect.provide(keep, storesIn[kind](folder)))
}
