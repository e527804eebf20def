import { assert, describe, it } from "@effect/vitest"
import { Checkpoints } from "../../src/index.ts"
import { suite } from "./CheckpointsTest.ts"

suite("memory", Checkpoints.layerMemory)

describe("the checkpoints that have to go", () => {
  const checkpoint = (at: number, size: number, isKept = true): Checkpoints.Checkpoint => ({
    id: `${at}`,
    principal: "p",
    batch: "b",
    callId: "c",
    tool: "t",
    at,
    files: [{ path: "a.txt", before: "hash", after: "", size, isKept }]
  })
  const surplus = (
    all: ReadonlyArray<Checkpoints.Checkpoint>,
    options: Checkpoints.Options,
    now = 0
  ) => Checkpoints.surplus(all, Checkpoints.boundsOf(options), now).map(({ at }) => at)

  it("are none within the bounds", () => {
    assert.deepStrictEqual(surplus([], { maxBytes: 0 }), [])
    assert.deepStrictEqual(surplus([checkpoint(1, 5), checkpoint(2, 5)], { maxBytes: 10 }), [])
  })

  it("are the oldest, in whatever order they are given", () => {
    const all = [checkpoint(3, 5), checkpoint(1, 5), checkpoint(4, 5), checkpoint(2, 5)]
    assert.deepStrictEqual(surplus(all, { maxBytes: 10 }), [1, 2])
    assert.deepStrictEqual(surplus(all, { maxAge: 2 }, 4), [1, 2])
    assert.deepStrictEqual(all.map(({ at }) => at), [3, 1, 4, 2])
  })

  it("leave room as they go, so that no more go than have to", () => {
    assert.deepStrictEqual(surplus([checkpoint(1, 8), checkpoint(2, 1), checkpoint(3, 4)], { maxBytes: 10 }), [1])
    assert.deepStrictEqual(
      surplus([checkpoint(1, 8), checkpoint(2, 8), checkpoint(3, 2)], { maxBytes: 10, maxAge: 3 }, 4),
      [1]
    )
  })

  it("are not counted by bytes that were never kept", () => {
    assert.deepStrictEqual(surplus([checkpoint(1, 1_000, false), checkpoint(2, 10)], { maxBytes: 10 }), [])
  })
})

describe("the error of a checkpoint", () => {
  it("says what is wrong, and shows no cause", () => {
    const message = (reason: Checkpoints.CheckpointError["reason"]) =>
      new Checkpoints.CheckpointError({ reason, id: "id-1", cause: new Error("SECRET") }).message
    assert.include(message("NotFound"), "id-1")
    assert.include(message("NotKept"), "too large")
    assert.include(message("Store"), "cannot be reached")
    for (const reason of ["NotFound", "NotKept", "Store"] as const) assert.notInclude(message(reason), "SECRET")
  })
})
