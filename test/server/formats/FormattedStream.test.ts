/** Streams of operations in another format: when they pause, and how they continue after the server was killed. */
import { assert, describe, it } from "@effect/vitest"
import { isToolUIPart, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { AgentEvent } from "../../../src/agent/index.ts"
import type { AgentSse } from "../../../src/server/api/ApiOperations.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { askedIn, knows } from "../../../src/server/formats/ChatMessages.ts"
import { FormattedOperation, type From } from "../../../src/server/formats/FormattedOperation.ts"
import * as FormattedStream from "../../../src/server/formats/FormattedStream.ts"
import { UiMessageWriter } from "../../../src/server/formats/UiMessageStream.ts"
import { Operations } from "../../../src/server/operations/Operations.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, begin, type Life } from "../../support/Served.ts"

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const saved: Array<string> = []

const tools = {
  save: { class: "SerialMut", handler: () => Effect.sync(() => saved.push("save")) },
  look: { class: "ReadOnly", handler: () => Effect.as(Effect.sleep("1 second"), "seen") }
} as const

interface Env {
  readonly live: (script: ScriptedModel.Script) => Effect.Effect<Life, unknown, Scope.Scope>
}

const test = <A, E>(
  name: string,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  options?: { tags: Array<string> }
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "formats-"))),
          (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
        )
        const live: Env["live"] = Effect.fnUntraced(function*(script) {
          const model = yield* ScriptedModel.make(script)
          const agents = { helper: { model: model.layer } }
          const policy = { default: "allow", ask: ["save"] } as const
          return yield* begin(join(folder, "server.db"), tools, { isAlone: true, policy, agents })
        })
        return yield* program({ live })
      })),
      { limit: "10 days" }
    ), options)

const call = (name: string, id?: string) => ({ name, params: { index: 0 }, ...id === undefined ? {} : { id } })

const start = ({ context }: Life) =>
  Context.get(context, Operations).start(ada, { agent: "helper", prompt: "go", id: "x" })

/** Reads a stream to its end, as `useChat` does. */
const read = Effect.fnUntraced(function*({ context }: Life, from: From, before?: UIMessage) {
  const operation = Option.getOrThrow(yield* Context.get(context, Operations).get(ada, "x"))
  const approvals = Context.get(context, PendingApprovals)
  const texts = yield* Stream.runCollect(FormattedStream.stream({
    events: operation.events(undefined),
    formatted: new FormattedOperation("x", from, (it) => new UiMessageWriter(`${it}-reply`)),
    hashes: Effect.map(approvals.list(bob), ({ open }) => new Map(open.map((it) => [it.id, it.hash])))
  }))
  const chunks = texts.filter((it) => it.startsWith("data: ")).map((it) => JSON.parse(it.slice(6)) as UIMessageChunk)
  return yield* Effect.promise(async () => {
    const stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => {
        for (const chunk of chunks) controller.enqueue(chunk)
        controller.close()
      }
    })
    let last = before
    const messages = readUIMessageStream({
      stream,
      ...before === undefined ? {} : { message: structuredClone(before) },
      terminateOnError: true
    })
    for await (const message of messages) last = structuredClone(message)
    return last!
  })
})

const answerAll = Effect.fnUntraced(function*({ context }: Life, message: UIMessage, answer: "ApproveOnce" | "Deny") {
  const approvals = Context.get(context, PendingApprovals)
  for (const { hash, request: id } of askedIn(message as never)) {
    yield* approvals.answer(bob, { id, hash, answer: { _tag: answer } })
  }
})

const after = (message: UIMessage): From => ({
  _tag: "Pause",
  handles: askedIn(message as never),
  knows: knows(message as never)
})

const statesOf = (message: UIMessage) => message.parts.filter(isToolUIPart).map((it) => [it.toolCallId, it.state])

const textOf = (message: UIMessage) => message.parts.map((it) => it.type === "text" ? it.text : "").join("|")

describe("a stream in the format of another library", () => {
  test("pauses once for all requests of a turn, a moment after the last", ({ live }) =>
    Effect.gen(function*() {
      const life = yield* live([{ calls: [call("save", "a"), call("save", "b")] }, { text: "done" }])
      const handle = yield* start(life)
      const began = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      const paused = yield* read(life, { _tag: "Start" })
      const ended = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      assert.isAtMost(ended - began, 1_000)
      assert.deepEqual(statesOf(paused), [["a", "approval-requested"], ["b", "approval-requested"]])
      yield* answerAll(life, paused, "ApproveOnce")
      const whole = yield* read(life, after(paused), paused)
      assert.deepEqual(statesOf(whole), [["a", "output-available"], ["b", "output-available"]])
      assert.include(textOf(whole), "done")
      yield* handle.ended
    }))

  it.effect("pauses also while other calls report without end, and sends a comment for each heartbeat", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const at = (index: number, callId: string) => {
          const wave = { agentPath: [], batch: "x", process: "x-1", wave: 1, at: 0, sequence: index + 1 }
          return { ...wave, callId, tool: callId, index }
        }
        const asking: ReadonlyArray<AgentEvent.Wire> = [
          { _tag: "ToolCallQueued", ...at(0, "busy"), params: {} },
          { _tag: "ToolCallQueued", ...at(1, "save"), params: {} },
          { _tag: "ToolCallStart", ...at(0, "busy"), attempt: 1, limitMillis: null },
          { _tag: "ToolApprovalRequested", ...at(1, "save"), requestId: "q", why: "it saves" }
        ]
        let places = 0
        const sse = (data: AgentSse["data"]): AgentSse => ({ id: `log-${++places}`, event: "", data })
        const report = Effect.as(
          Effect.sleep("50 millis"),
          sse({ _tag: "ToolStatus", ...at(0, "busy"), status: "busy" })
        )
        const events = Stream.fromIterable([sse({ _tag: "Heartbeat", at: 0 }), ...asking.map(sse)]).pipe(
          Stream.concat(Stream.repeat(Stream.fromEffect(report), Schedule.forever))
        )
        const texts = yield* Stream.runCollect(FormattedStream.stream({
          events,
          formatted: new FormattedOperation("x", { _tag: "Start" }, (it) => new UiMessageWriter(it)),
          hashes: Effect.succeed(new Map([["q", "abc"]]))
        }))
        assert.strictEqual(texts[0], ":\n\n")
        const types = texts.slice(1).map((it) => JSON.parse(it.slice(6)).type as string)
        assert.isBelow(types.filter((it) => it === "data-report").length, 45)
        assert.deepEqual(types.slice(-6), [
          "finish-step",
          "start-step",
          "tool-input-available",
          "tool-approval-request",
          "finish-step",
          "finish"
        ])
      }),
      { limit: "1 hour" }
    ))

  it.effect("ends when everything comes again from another runner, without a text twice", () =>
    Effect.gen(function*() {
      const part = (delta: string) => ({ type: "text-delta", id: "1", delta } as const)
      const about = { agentPath: [], operation: "x", turn: 1, at: 0 }
      const said = (delta: string, place: number): AgentSse => ({
        id: `log-${place}`,
        event: "",
        data: { _tag: "AssistantMessagePart", ...about, part: part(delta) }
      })
      const reset: AgentSse = { event: "reset", data: { _tag: "Reset" } }
      const texts = yield* Stream.runCollect(FormattedStream.stream({
        events: Stream.make(said("one ", 1), said("two ", 2), reset, said("one ", 1), said("two ", 2)),
        formatted: new FormattedOperation("x", { _tag: "Start" }, (it) => new UiMessageWriter(`${it}-reply`)),
        hashes: Effect.succeed(new Map())
      }))
      const chunks = texts.map((it) => JSON.parse(it.slice("data: ".length)) as UIMessageChunk)
      assert.deepEqual(
        chunks.flatMap((it) => it.type === "text-delta" ? [it.delta] : []),
        ["one ", "two "]
      )
      assert.equal(chunks.at(-1)?.type, "error")
    }), { tags: ["SV27"] })

  test(
    "continues after the server was killed while approval was pending, in the same message",
    ({ live }) =>
      Effect.gen(function*() {
        const first = yield* live([{ text: "I save it.", calls: [call("look", "l"), call("save", "s")] }])
        yield* start(first)
        const paused = yield* read(first, { _tag: "Start" })
        yield* first.kill
        const second = yield* live([{ text: "It is saved." }])
        yield* Effect.sleep("5 seconds")
        // a reload: the whole message again
        const again = yield* read(second, { _tag: "Start" })
        assert.strictEqual(again.id, paused.id)
        assert.deepEqual(
          askedIn(again as never).map((it) => it.request),
          askedIn(paused as never).map((it) => it.request)
        )
        // the tab that stayed open has the message of the first server
        yield* answerAll(second, paused, "ApproveOnce")
        const whole = yield* read(second, after(paused), paused)
        assert.deepEqual(Object.fromEntries(statesOf(whole)), { l: "output-available", s: "output-available" })
        assert.strictEqual(textOf(whole).replaceAll("|", ""), "I save it.It is saved.")
        const other = yield* read(second, { _tag: "Start" })
        assert.strictEqual(textOf(other).replaceAll("|", ""), "I save it.It is saved.")
        assert.deepEqual(Object.fromEntries(statesOf(other)), Object.fromEntries(statesOf(whole)))
      }),
    { tags: ["SV28"] }
  )

  test("ends at a stop of the server with the requests that survive it, and continues after its start", ({ live }) =>
    Effect.gen(function*() {
      const life = yield* live([{ calls: [call("look", "l"), call("save", "a")] }])
      yield* start(life)
      const paused = yield* read(life, { _tag: "Start" })
      yield* Effect.sleep("1 second")
      yield* Effect.all([
        Context.get(life.context, Operations).drain("5 seconds"),
        Context.get(life.context, PendingApprovals).suspend("the server stops")
      ], { concurrency: "unbounded", discard: true })
      const stopped = yield* read(life, { _tag: "Start" })
      assert.deepEqual(statesOf(stopped), [["l", "output-available"], ["a", "approval-requested"]])
      yield* life.kill
      const next = yield* live([{ text: "It stays." }])
      yield* Effect.sleep("5 seconds")
      yield* answerAll(next, paused, "Deny")
      const whole = yield* read(next, after(paused), paused)
      assert.deepEqual(Object.fromEntries(statesOf(whole)), { a: "output-denied", l: "output-available" })
      assert.include(textOf(whole), "It stays.")
    }))
})
