/** The log of an operation that continues the log of an earlier start. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as AgentEvent from "../../../src/agent/AgentEvent.ts"
import type { Operation } from "../../../src/server/api/ApiOperations.ts"
import { OperationLog } from "../../../src/server/operations/OperationLog.ts"
import { ServedOperation } from "../../../src/server/operations/ServedOperation.ts"

const bounds = { events: 10, chars: 100_000 }

const common = { agentPath: [], operation: "x", turn: 1, at: 0 }

const taken = (text: string): AgentEvent.Wire => ({ _tag: "MessageTaken", ...common, id: text, text })

const delta = (text: string): AgentEvent.Wire => ({
  _tag: "AssistantMessagePart",
  ...common,
  part: { type: "text-delta", id: "t", delta: text }
})

const textsOf = (log: OperationLog, after?: string, isShared = false) =>
  Effect.map(
    Stream.runCollect(log.stream(after, isShared)),
    (events) => events.map(({ data, event }) => "text" in data ? data.text : event)
  )

const usage = { inputTokens: 1, outputTokens: 2, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

const ended: Operation = {
  id: "x",
  session: "s",
  agent: "helper",
  state: "ended",
  startedAt: 0,
  endedAt: 5,
  prompt: "go",
  turn: 1,
  usage,
  calls: 0,
  pending: 0,
  end: { reason: { _tag: "Finished" }, message: "The model has finished.", text: "done" }
}

describe("the log of an operation", () => {
  it.effect("has the end of an operation that was stored without its event, and no end twice", () =>
    Effect.gen(function*() {
      const submitted = { user: "ada", operation: "x", ...ended, inputs: [{ id: "x", text: "go" }] as const }
      const log = new OperationLog("second", bounds)
      const operation = new ServedOperation(submitted, log, undefined)
      operation.restore([{ log: "first", events: [{ place: 1, event: taken("a") }] }])
      operation.restoreEnd(ended)
      assert.deepEqual(yield* textsOf(log), ["a", "done"])
      const [, event] = log.kept(1)[0]!
      const again = new OperationLog("third", bounds)
      const next = new ServedOperation(submitted, again, undefined)
      next.restore([{ log: "second", events: [{ place: 1, event: taken("a") }, { place: 2, event }] }])
      next.restoreEnd(ended)
      assert.deepEqual(yield* textsOf(again), ["a", "done"])
      assert.deepEqual(next.info, ended)
    }))

  it("counts a call once that starts again where the operation continues", () => {
    const submitted = { user: "ada", operation: "x", ...ended, inputs: [{ id: "x", text: "go" }] as const }
    const started = (callId: string): AgentEvent.Wire => ({ _tag: "ExecutingTool", ...common, callId, tool: "writer" })
    const events = ["a", "b", "a"].map((it, index) => ({ place: index + 1, event: started(it) }))
    const operation = new ServedOperation(submitted, new OperationLog("second", bounds), undefined)
    operation.restore([{ log: "first", events }])
    assert.strictEqual(operation.info.calls, 2)
  })

  it.effect(
    "has the stored events of an earlier log, and its positions as far as they were stored",
    () =>
      Effect.gen(function*() {
        const first = new OperationLog("first", bounds)
        for (const text of ["a", "b"]) first.append(taken(text))
        const stored = first.kept(0).map(([place, event]) => ({ place, event }))
        first.append(taken("c, which was not stored"))
        const second = new OperationLog("second", bounds)
        second.restore([{ log: "first", events: stored }])
        second.append(taken("d"))
        second.close()
        assert.deepEqual(yield* textsOf(second), ["a", "b", "d"])
        assert.deepEqual(yield* textsOf(second, "first-1"), ["b", "d"])
        assert.deepEqual(yield* textsOf(second, "first-2"), ["d"])
        assert.deepEqual(yield* textsOf(second, "first-3"), ["reset", "a", "b", "d"])
        assert.deepEqual(yield* textsOf(second, "second-3"), [])
        assert.deepEqual(yield* textsOf(second, "third-1"), ["reset", "a", "b", "d"])
      }),
    { tags: ["SV25"] }
  )

  it.effect("counts fragments that were not stored as a gap", () =>
    Effect.gen(function*() {
      const log = new OperationLog("second", bounds)
      log.restore([{ log: "first", events: [{ place: 3, event: taken("a") }] }])
      log.close()
      assert.deepEqual(yield* textsOf(log), ["gap", "a"])
    }))

  it.effect("gives other readers than the owner no fragments and no secrets", () =>
    Effect.gen(function*() {
      const log = new OperationLog("log", bounds)
      for (const text of ["api_key=hunter2", "hunt", "er2"]) log.append(delta(text))
      log.append(taken("api_key=hunter2-hunter2"))
      log.close()
      assert.lengthOf(yield* textsOf(log), 4)
      assert.deepEqual(yield* textsOf(log, undefined, true), ["api_key=[redacted]"])
    }), { tags: ["SV26"] })
})
