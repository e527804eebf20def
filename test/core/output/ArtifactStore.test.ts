import { assert, describe, it } from "@effect/vitest"
import { ArtifactStoreContract } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as ArtifactStore from "../../../src/core/output/ArtifactStore.ts"
import * as Contract from "../../support/contract.ts"

Contract.run("ArtifactStore in memory", ArtifactStoreContract.make({ layer: ArtifactStore.layerMemory }))

describe("the artifacts of a principal", () => {
  it.effect("are refused where others have left no room, and take none from them", () =>
    Effect.gen(function*() {
      const store = ArtifactStore.makeMemory({ maxChars: 100, maxTotalChars: 120 })
      const put = (principal: string, chars: number) => store.put({ principal, batch: "b" }, "x".repeat(chars))
      const theirs = yield* put("q", 90)
      assert.strictEqual((yield* Effect.flip(put("p", 31))).reason, "Full")
      yield* put("p", 30)
      yield* put("p", 30)
      const read = store.read({ principal: "q", batch: "b" }, theirs.id, { offset: 0, length: 100 })
      assert.strictEqual((yield* read).text, "x".repeat(90))
    }), { tags: ["S6"] })
})

describe("the bounds of artifacts", () => {
  it.effect("are all looked at before anything is kept", () =>
    Effect.gen(function*() {
      const wrong = { timeToLive: 0, maxChars: -1, maxCount: Number.NaN, maxTotalChars: -1 }
      const error = yield* Effect.flip(Effect.provide(Effect.void, ArtifactStore.layerMemory(wrong)))
      assert.sameMembers(error.problems.map(({ path }) => path), Object.keys(wrong))
    }))
})

describe("the error of an artifact", () => {
  it("says what to do, and shows no cause", () => {
    const message = (reason: ArtifactStore.ArtifactError["reason"]) =>
      new ArtifactStore.ArtifactError({ reason, id: "id-1", cause: new Error("SECRET") }).message
    assert.include(message("NotFound"), "id-1")
    assert.include(message("Expired"), "run the tool again")
    assert.include(message("Full"), "other principals")
    assert.notInclude(message("StoreFailed"), "SECRET")
  })
})
