/** In stop mode the first refusal or timeout in input order ends the wave at its place. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Guards, ToolAnnotations } from "../../src/index.ts"
import { call, calls, type Handler, run, tags } from "../support/Harness.ts"

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1_000))

/** A guard that refuses calls with `no`, and the ids that it was asked about. */
const asked = () => {
  const ids: Array<string> = []
  const guard: Guards.Guard = {
    name: "g",
    check: ({ call }) =>
      Effect.suspend(() => {
        ids.push(call.id)
        return (call.params as { no?: boolean }).no === true ? Effect.fail("no") : Effect.void
      })
  }
  return { ids, options: { onExecutionError: "stop", guards: [guard] } as const }
}

describe("behind the place where a wave stops", () => {
  for (const kind of ["ReadOnly", "SerialMut"] as const) {
    it.effect(`guards are asked about no ${kind} call, when it stops at a name that is no tool`, () => {
      const { ids, options } = asked()
      return run({ t: { class: kind, handler: sleeper } }, options, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeBatch(calls("t", "nope", "t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound", "Skipped", "Skipped"])
          assert.deepStrictEqual(ids, ["1"])
        }))
    })
  }

  it.effect("guards are asked about no call of a later run", () => {
    const { ids, options } = asked()
    return run({ t: { class: "SerialMut", handler: sleeper } }, options, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeBatch(calls("t", ["t", { no: true }], "t", "t"))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "GuardRejected", "Skipped", "Skipped"])
        assert.deepStrictEqual(ids, ["1", "2"])
      }))
  })

  it.effect("calls that are refused together with the first are skipped", () =>
    run(
      {
        w: {
          class: "ConcurrentMut",
          handler: ({ deaf }) => deaf === true ? Effect.uninterruptible(Effect.sleep("1 hour")) : Effect.void,
          annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["the one"])
        }
      },
      { onExecutionError: "stop" },
      ({ batch, process }) =>
        Effect.gen(function*() {
          yield* (yield* batch.process).executeBatch([call("d", "w", { deaf: true })], { timeout: 10 })
          const wave = yield* process.executeBatch(calls("w", "w", "w"))
          assert.deepStrictEqual(tags(wave), ["ToolBlocked", "Skipped", "Skipped"])
        })
    ))

  it.effect("calls that were refused on arrival are skipped", () =>
    run({ t: sleeper }, { onExecutionError: "stop" }, ({ process }) =>
      Effect.map(
        process.executeBatch([...calls("t", "nope", "nope"), call("4", "t", null)]),
        (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound", "Skipped", "Skipped"])
      )))
})
