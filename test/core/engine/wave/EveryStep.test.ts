/**
 * A wave whose caller is interrupted at each step it takes: every call has its
 * one end, and nothing of it is left.
 */
import { assert, describe, it } from "@effect/vitest"
import { Approvals, LocalExecutor, ToolExecutor } from "effect-tool-executor"
import { ScriptedTools, VirtualTime } from "effect-tool-executor/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as ToolCall from "../../../../src/core/vocabulary/ToolCall.ts"

const calls = [
  ToolCall.make("1", "read", { n: 1 }),
  ToolCall.make("2", "read", { n: 2 }),
  ToolCall.make("3", "read", { n: 1 }),
  ToolCall.make("4", "asked", {}),
  ToolCall.make("5", "write", { n: 9 }),
  ToolCall.make("6", "limited", {}),
  ToolCall.make("7", "nothing", {}),
  ToolCall.fromText("8", "read", "{")
]

/** Runs the wave; what is seen of it, and what is left once its caller is gone. */
const program = (seen: { ends: Array<string>; left: ReadonlyArray<unknown> }) => {
  const tools = ScriptedTools.make({
    read: { class: "ReadOnly", takes: "10 millis" },
    asked: { class: "ReadOnly", takes: "10 millis" },
    write: { takes: "10 millis", resources: ["n"] },
    limited: { takes: "10 millis" }
  })
  const executor = LocalExecutor.layer(tools.toolkit, {
    policy: { default: "allow", ask: ["asked"] },
    rules: [{ _tag: "MaxCalls", tool: "limited", max: 1 }, { _tag: "Cooldown", tool: "write", duration: "1 millis" }],
    pools: { read: 1 },
    dedupe: { inFlight: "join" }
  }).pipe(Layer.provide(tools.handlers), Layer.provideMerge(Approvals.layer()))
  return Effect.gen(function*() {
    const service = yield* ToolExecutor.ToolExecutor
    const approvals = yield* Approvals.Approvals
    yield* approvals.changes.pipe(
      Stream.runForEach((change) =>
        change._tag === "Requested"
          ? Effect.andThen(
            Effect.sleep("1 millis"),
            Effect.ignore(approvals.answer(change.request.id, { _tag: "ApproveOnce" }))
          )
          : Effect.void
      ),
      Effect.forkChild({ startImmediately: true })
    )
    const process = yield* service.process({ batch: "b" })
    const observer = yield* process.events.pipe(
      Stream.takeUntil((event) => event._tag === "ToolsEnd"),
      Stream.runForEach((event) =>
        Effect.sync(() => {
          if (event._tag === "ToolCallComplete") seen.ends.push(event.callId)
        })
      ),
      Effect.forkDetach({ startImmediately: true })
    )
    yield* Effect.onInterrupt(process.executeWave(calls), () =>
      Effect.gen(function*() {
        yield* Fiber.join(observer)
        // whoever comes next finds every permit, every slot that was not spent, and no question
        const later = yield* service.process({ batch: "c" })
        const wave = yield* Effect.timeout(
          Effect.andThen(
            Effect.sleep("1 seconds"),
            later.executeWave([
              ToolCall.make("r", "read", { n: 3 }),
              ToolCall.make("w", "write", { n: 9, again: true }),
              ToolCall.make("l", "limited", { n: 9 })
            ])
          ),
          "1 minute"
        )
        const { running } = yield* service.orphans
        const open = yield* approvals.list
        seen.left = [wave.outcomes.map((it) => it._tag), running.length, open.length]
      }).pipe(Effect.scoped, Effect.orDie))
  }).pipe(Effect.scoped, Effect.provide(executor))
}

describe("a wave whose caller is interrupted", () => {
  it.effect("at whatever step: every call ends once, and nothing of it is left", () =>
    Effect.gen(function*() {
      let interrupted = 0
      for (let steps = 1;; steps++) {
        const seen = { ends: new Array<string>(), left: [] as ReadonlyArray<unknown> }
        const ran = yield* Effect.result(VirtualTime.run(program(seen), { steps }))
        if (Result.isSuccess(ran)) break
        assert.strictEqual(ran.failure._tag, "Stuck")
        // the wave had not begun yet
        if (seen.left.length === 0) continue
        interrupted++
        assert.deepStrictEqual(seen.ends.toSorted(), ["1", "2", "3", "4", "5", "6", "7", "8"], `after ${steps} steps`)
        assert.deepStrictEqual(seen.left, [["Succeeded", "Succeeded", "Succeeded"], 0, 0], `after ${steps} steps`)
      }
      assert.isAbove(interrupted, 10)
    }))
})
