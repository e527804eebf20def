/** What the user said, handed over with waves: whose it is, and what becomes of it after a restart. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import { Provenance } from "../../../src/index.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message } from "../../support/Served.ts"

const traced = Provenance.layer({ tools: { pick: { effect: "write", parameters: { index: "target" } } } })

const server = inMemory({ pick: { class: "SerialMut", handler: () => Effect.succeed("picked") } }).pipe(
  Layer.provide(Layer.orDie(traced))
)

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

describe("a wave with what the user said", () => {
  it.effect("counts it for the session of that user, now and later, and for no other", () =>
    VirtualTime.run(
      Effect.scoped(Effect.provide(
        Effect.gen(function*() {
          const waves = yield* Waves
          const approvals = yield* Approvals.Approvals
          const first = yield* waves.submit(ada, { message: message("pick"), said: ["Take number 0"] })
          assert.deepStrictEqual(tagsOf(yield* first.ended), ["Succeeded"])
          const second = yield* waves.submit(ada, { message: message("pick") })
          assert.deepStrictEqual(tagsOf(yield* second.ended), ["Succeeded"])
          for (const owner of [{ user: "bob", session: ada.session }, { ...ada, session: "two" }]) {
            yield* waves.submit(owner, { message: message("pick") })
          }
          yield* Effect.sleep("1 second")
          const pending = yield* approvals.list
          assert.deepStrictEqual(pending.map(({ evidence }) => evidence), [
            [{ _tag: "Origin", path: "index", value: "0", origin: "model" }],
            [{ _tag: "Origin", path: "index", value: "0", origin: "model" }]
          ])
        }),
        server
      )),
      { limit: "1 day" }
    ))
})
