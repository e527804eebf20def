/** In stop mode the first refusal or timeout in input order ends the wave at its place. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import {
  Dedupe,
  type Gate,
  type Guards,
  ToolAnnotations,
  type ToolCall,
  type ToolOutcome,
  type ToolProcess
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Handler, open, type Options, run, tags, type ToolSpec } from "../../../support/Harness.ts"

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
          const wave = yield* process.executeWave(calls("t", "nope", "t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound", "Skipped", "Skipped"])
          assert.deepStrictEqual(ids, ["1"])
        }))
    })
  }

  it.effect("guards are asked about no call of a later run", () => {
    const { ids, options } = asked()
    return run({ t: { class: "SerialMut", handler: sleeper } }, options, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls("t", ["t", { no: true }], "t", "t"))
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
          yield* (yield* batch.process()).executeWave([call("d", "w", { deaf: true })], { timeout: 10 })
          const wave = yield* process.executeWave(calls("w", "w", "w"))
          assert.deepStrictEqual(tags(wave), ["ToolBlocked", "Skipped", "Skipped"])
        })
    ))

  it.effect("calls that were refused on arrival are skipped", () =>
    run({ t: sleeper }, { onExecutionError: "stop" }, ({ process }) =>
      Effect.map(
        process.executeWave([...calls("t", "nope", "nope"), call("4", "t", null)]),
        (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound", "Skipped", "Skipped"])
      )))

  it.effect("a call that another one waits for is skipped, and the other one runs", () =>
    run(
      { stops: () => Effect.never, t: { class: "ConcurrentMut", handler: sleeper } },
      {
        dedupe: { inFlight: "join" },
        mode: "parallel",
        onExecutionError: "stop",
        pools: { concurrent: 1 },
        tools: { stops: { timeout: 1_000 } }
      },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const wave = (it: ToolProcess.ToolProcess, all: ReadonlyArray<ToolCall.ToolCall>) =>
            Effect.forkChild(it.executeWave(all), { startImmediately: true })
          yield* wave(yield* batch.process(), calls(["t", { sleep: 5_000 }]))
          const first = yield* wave(process, calls("stops", ["t", { a: 1 }]))
          const follower = yield* wave(yield* batch.process(), calls(["t", { a: 1 }]))
          assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["TimedOut", "Skipped"])
          assert.deepStrictEqual(tags(yield* Fiber.join(follower)), ["Succeeded"])
        })
    ))

  const late: ToolSpec = {
    handler: sleeper,
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["the one"]),
    class: "ConcurrentMut"
  }

  /** What waits behind a call that times out after a second, beside one that takes ten. */
  const waiting: Readonly<Record<string, { readonly options?: Options; readonly mode?: "classes" }>> = {
    "a resource that another process holds": {},
    "a permit that another process holds": { options: { pools: { concurrent: 1 } } },
    "its turn in a later run": { mode: "classes" },
    "a store that answers late": {
      options: {
        store: { ...StateStore.makeMemory(), mutated: () => Effect.sleep(4_000) }
      }
    },
    "a person": {
      options: { rules: [{ _tag: "RequiresConsent", tool: "late" }] }
    }
  }
  for (const [what, { mode = "parallel", options }] of Object.entries(waiting)) {
    it.effect(`a call that waits for ${what} is skipped at once, and stays so`, () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { batch, process } = yield* open({ slow: sleeper, stops: sleeper, late, hold: late }, {
          ...options,
          mode,
          onExecutionError: "stop",
          approvals,
          tools: { stops: { timeout: "1 second" } }
        })
        if (what.includes("another")) {
          const other = yield* batch.process()
          yield* Effect.forkChild(other.executeWave([call("h", "hold", { sleep: 100_000 })]), {
            startImmediately: true
          })
        }
        const told: Array<string> = []
        yield* Effect.forkScoped(
          Stream.runForEach(process.events, (event) =>
            Effect.map(VirtualTime.now, (now) => {
              if (event._tag === "ToolCallComplete") told.push(`${event.callId} ${event.outcome._tag} at ${now}`)
            })),
          { startImmediately: true }
        )
        yield* Effect.forkChild(Effect.delay(process.cancelCall("3"), 2_000), { startImmediately: true })
        const wave = yield* process.executeWave(
          calls(["slow", { sleep: 10_000 }], ["stops", { sleep: 5_000 }], "late")
        )
        assert.deepStrictEqual(tags(wave), ["Succeeded", "TimedOut", "Skipped"])
        assert.deepStrictEqual(told, ["2 TimedOut at 1000", "3 Skipped at 1000", "1 Succeeded at 10000"])
        assert.strictEqual(yield* VirtualTime.now, 10_000)
        assert.deepStrictEqual(yield* approvals.list, [])
      }))))
  }
})

describe("a call with an unknown end", () => {
  const unknown: ToolOutcome.ToolOutcome = {
    _tag: "Unknown",
    callId: "0",
    tool: "w",
    index: 0,
    attempt: 1,
    queuedAt: 0,
    startedAt: 5,
    commits: 0
  }
  const around = Effect.runSync(Dedupe.make())
  /** What is like an earlier call gets an outcome that was found on record. */
  const found = Layer.succeed(Dedupe.Dedupe, {
    ...around,
    claim: (call, options) => {
      const key = around.claim(call, options)
      return key?._tag === "Key" ? { ...key, settled: "all" } : key
    },
    duplicate: () => ({ _tag: "Replays", outcome: unknown })
  })
  const tools = { w: { class: "SerialMut", handler: sleeper } } as const
  const again = (onExecutionError: "continue" | "stop") =>
    run(tools, { onExecutionError, swap: found }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "w", {})])
        return yield* process.executeWave([call("2", "w", {}), call("3", "w", { n: 3 })])
      }))

  it.effect("ends a wave in stop mode, and says so", () =>
    Effect.gen(function*() {
      const wave = yield* again("stop")
      assert.deepStrictEqual(tags(wave), ["Unknown", "Skipped"])
      assert.deepInclude(wave.outcomes[0], { callId: "2", startedAt: 5, replayOf: "0" })
      assert.include(wave.toolMessages[0]?.text, "It may or may not have happened.")
      assert.include(wave.toolMessages[1]?.text, "call 2 (w) has no end on record")
    }), { tags: ["C9"] })

  it.effect("ends no other wave", () =>
    Effect.map(again("continue"), (wave) => assert.deepStrictEqual(tags(wave), ["Unknown", "Succeeded"])))

  it("keeps its key: an equal one does not run", () => {
    const gateCall = { batch: "b", targets: [], tool: { readOnly: true } } as unknown as Gate.GateCall
    assert.strictEqual(
      around.settlement(gateCall, unknown, { rule: undefined, stillRunning: false, wanted: false }).key,
      "keep"
    )
  })
})

describe("stop mode", () => {
  it.effect("gives a call that joined a running one that call's outcome, wherever the wave ends", () => {
    const tools: Record<string, ToolSpec> = {
      read: { class: "ReadOnly", handler: sleeper },
      look: { class: "ReadOnly", handler: sleeper }
    }
    const options: Options = {
      onExecutionError: "stop",
      dedupe: { inFlight: "join" },
      tools: { look: { timeout: "100 millis" } },
      pools: { read: 2 }
    }
    return run(tools, options, ({ process }) =>
      Effect.gen(function*() {
        const wave = [
          call("1", "read", { n: 1, sleep: 500 }),
          call("2", "look", {}),
          call("3", "read", { n: 1, sleep: 500 }),
          call("4", "read", { n: 4 })
        ]
        assert.deepStrictEqual(tags(yield* process.executeWave(wave)), [
          "Succeeded",
          "TimedOut",
          "Succeeded",
          "Skipped"
        ])
      }))
  }, { tags: ["C10"] })

  it.effect("skips a call behind the place whose call that it joined ended on its own", () => {
    const tools: Record<string, ToolSpec> = {
      read: { class: "ReadOnly", handler: sleeper },
      look: { class: "ReadOnly", handler: sleeper }
    }
    const options: Options = {
      onExecutionError: "stop",
      dedupe: { inFlight: "join" },
      tools: { look: { timeout: "100 millis" } }
    }
    return run(tools, options, ({ process }) =>
      Effect.gen(function*() {
        const wave = [call("1", "read", { sleep: 500 }), call("2", "look", {}), call("3", "read", { sleep: 500 })]
        const running = yield* Effect.forkScoped(process.executeWave(wave))
        yield* Effect.sleep(200)
        yield* process.cancelCall("1")
        assert.deepStrictEqual(tags(yield* Fiber.join(running)), ["Cancelled", "TimedOut", "Skipped"])
      }))
  }, { tags: ["C10"] })
})

describe("a process with heartbeats", () => {
  it.effect("waits for a tool required before the end only so often, if no call asks for another turn", () =>
    run(
      { read: sleeper, report: sleeper },
      { heartbeats: true, exitAttempts: 2, dedupe: false, rules: [{ _tag: "RequiredBeforeExit", tool: "report" }] },
      ({ process }) =>
        Effect.gen(function*() {
          const goesOn = Effect.map(process.executeWave(calls("read")), (it) => it.needsContinuation)
          assert.deepStrictEqual(yield* Effect.all([goesOn, goesOn, goesOn]), [true, true, false])
        })
    ))
})

describe("a process that was cancelled", () => {
  it.effect("needs no continuation, whatever asked for one", () =>
    run(
      { read: sleeper },
      { heartbeats: true, rules: [{ _tag: "ContinueLoop", tool: "read" }] },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkScoped(process.executeWave(calls("read", "read")))
          yield* Effect.sleep(1)
          yield* process.cancel("enough")
          assert.isFalse((yield* Fiber.join(wave)).needsContinuation)
          assert.isFalse((yield* process.executeWave(calls("read"))).needsContinuation)
        })
    ), { tags: ["R8"] })
})
