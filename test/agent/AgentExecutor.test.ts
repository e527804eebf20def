/** The loop: what a model asks for is run, told and gone on with, until it is done. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Tracer from "effect/Tracer"
import { events, run, tagsOf, words } from "../support/Agents.ts"

const tools = {
  read: ({ path }: { readonly [key: string]: unknown }) => Effect.succeed(`text of ${String(path)}`),
  fails: () => Effect.fail("no such thing")
}

describe("an operation", () => {
  it.effect("asks the model, runs what it calls, tells it the results, and ends when it is done", () =>
    run(tools, [
      {
        text: "I look.",
        calls: [{ id: "1", name: "read", params: { path: "a" } }, { id: "2", name: "fails", params: {} }]
      },
      { text: "Done.", usage: { input: 10, output: 2 } }
    ], (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, { prompt: "Read a", system: "You read." })
        assert.deepStrictEqual(end.reason, { _tag: "Finished" })
        assert.deepStrictEqual([end.text, end.turns, end.calls], ["Done.", 2, 2])
        assert.deepStrictEqual(words(end.history), [
          "user: Read a",
          "assistant: I look.",
          "calls read 1",
          "calls fails 2",
          "result 1: text of a",
          "error 2: \"fails\" failed: no such thing",
          "assistant: Done."
        ])
        const [first, second] = yield* env.model.requests
        assert.deepStrictEqual(words(first!.prompt), ["system: You read.", "user: Read a"])
        assert.strictEqual(words(second!.prompt).length, 7)
        assert.deepStrictEqual(tagsOf(all).filter((it) => it !== "AssistantMessagePart"), [
          "AssistantMessageFinal",
          "ToolCallQueued",
          "ToolCallQueued",
          "ToolCallStart",
          "ExecutingTool",
          "ToolCallComplete",
          "ToolResultReceived",
          "ToolCallStart",
          "ExecutingTool",
          "ToolCallComplete",
          "ToolResultReceived",
          "ToolsEnd",
          "AssistantMessageFinal",
          "OperationEnd"
        ])
      })))

  it.effect("has a span where its caller has one, and nothing of the kind where nobody has", () => {
    const seen: Array<ReadonlyArray<string>> = []
    const read = () =>
      Effect.map(
        Effect.option(Effect.currentSpan),
        (span) => seen.push(Option.match(span, { onNone: () => [], onSome: namesOf }))
      )
    return run(
      { read },
      () => ({ calls: [{ name: "read" }] }),
      (env) =>
        Effect.gen(function*() {
          const options = { prompt: "Go", limits: { turns: 1 } }
          yield* env.agents.run(options)
          yield* Effect.withSpan(env.agents.run(options), "request")
          assert.deepStrictEqual(seen[0], [])
          assert.includeMembers([...seen[1]!], ["invoke_agent", "request"])
        })
    )
  })
})

/** Of a span and those around it. */
const namesOf = (span: Tracer.AnySpan): ReadonlyArray<string> =>
  span._tag === "ExternalSpan" ? [] : [span.name, ...Option.match(span.parent, { onNone: () => [], onSome: namesOf })]
