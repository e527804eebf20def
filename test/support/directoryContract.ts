/** What holds for every `SessionDirectory`, wherever its sessions run and whatever becomes of them between two steps. */
import { describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { sentences as agents } from "./directoryAgents.ts"
import { sentences as approvals } from "./directoryApprovals.ts"
import { sentences as records } from "./directoryRecords.ts"
import { sentences as waves } from "./directoryWaves.ts"
import { Env, type Sentence, Subject, type World, world } from "./directoryWorld.ts"

export const contract: { readonly [about: string]: ReadonlyArray<Sentence> } = { waves, approvals, agents, records }

class Shared extends Context.Service<Shared, World>()("test/support/directoryContract/Shared") {}

/** Options of a run of the contract. */
export interface Options {
  /** Names of sentences that are checked; default: all. */
  readonly only?: (name: string) => boolean
  /** Milliseconds for each sentence. Default 15,000. */
  readonly timeout?: number
}

/**
 * Checks the contract, in real time. `layer` builds the runners over the tools, agents and users of the world, and over
 * checkpoints and `Undoing` in the folder; it is built once, and each sentence has users of its own.
 */
export const suite = (
  name: string,
  layer: (world: World, folder: string) => Layer.Layer<Subject, unknown>,
  { only = () => true, timeout = 15_000 }: Options = {}
): void => {
  const built = Layer.unwrap(Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "directory-"))),
      (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
    )
    const shared = yield* world(folder)
    return Layer.merge(Layer.succeed(Shared, shared), layer(shared, folder))
  }))
  describe(name, () => {
    it.layer(built, { timeout: "60 seconds", excludeTestServices: true })((it) => {
      for (const [about, sentences] of Object.entries(contract)) {
        if (!sentences.some(([sentence]) => only(sentence))) continue
        describe(about, () => {
          for (const [sentence, check] of sentences) {
            if (!only(sentence)) continue
            it.effect(sentence, () =>
              Effect.gen(function*() {
                yield* check(new Env(yield* Shared, yield* Subject))
              }), timeout)
          }
        })
      }
    })
  })
}
