/** Runs the graph that `docs/adapters.md` shows, with a model that says what a test says. */
import { assert, describe, it } from "@effect/vitest"
import { HumanMessage, ToolMessage } from "@langchain/core/messages"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { makeGraph } from "../../scripts/examples/langgraph.ts"
import { LocalExecutor, ToolExecutor, type ToolProcess } from "../../src/index.ts"
import { ScriptedChat } from "../support/scriptedChat.ts"
import type { Call } from "../support/scriptedModel.ts"

const N = Schema.Struct({ n: Schema.Finite })
const kit = Toolkit.make(
  Tool.make("read", { parameters: N, success: Schema.String }).annotate(Tool.Readonly, true),
  Tool.make("write", { parameters: N, success: Schema.String }),
  Tool.make("picture", {
    parameters: N,
    success: Schema.String,
    toModelOutput: (data) => [Prompt.textPart({ text: "a cat" }), Prompt.filePart({ mediaType: "image/png", data })]
  }).annotate(Tool.Readonly, true)
)

const run = <A, E>(
  program: (process: ToolProcess.ToolProcess, log: ReadonlyArray<string>) => Effect.Effect<A, E>
) => {
  const log: Array<string> = []
  const did = (what: string) => Effect.andThen(Effect.yieldNow, Effect.sync(() => (log.push(what), what)))
  const executor = LocalExecutor.layer(kit, { policy: { allow: ["write"] } }).pipe(
    Layer.provide(kit.toLayer({
      read: ({ n }) => did(`read ${n}`),
      write: ({ n }) => did(`wrote ${n}`),
      picture: () => Effect.succeed("AQID")
    }))
  )
  return Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor.ToolExecutor).process()
    return yield* program(process, log)
  }).pipe(Effect.scoped, Effect.provide(executor))
}

const turns: ReadonlyArray<ReadonlyArray<Call>> = [
  [["1", "read", { n: 1 }], ["2", "write", { n: 2 }], ["3", "read", { n: "three" }], ["4", "picture", { n: 4 }]],
  [["5", "read", { n: 5 }]]
]

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")

describe("the guide about loops of others", () => {
  it("shows them as they are", () => {
    assert.include(read("docs/adapters.md"), read("scripts/examples/langgraph.ts").replace(/^\/\*\*[^]*?\*\/\n/, ""))
  })

  it.live("has a wave for the tool node of a graph of LangGraph", () =>
    run((process, log) =>
      Effect.gen(function*() {
        const model = new ScriptedChat(turns)
        const graph = yield* makeGraph(model, process)
        const { messages } = yield* Effect.promise(() => graph.invoke({ messages: [new HumanMessage("go")] }))
        assert.strictEqual(messages.at(-1)?.text, "done")
        assert.lengthOf(model.bound, 3)
        assert.deepStrictEqual(log, ["read 1", "wrote 2", "read 5"])
        const results = messages.filter(ToolMessage.isInstance)
        assert.deepStrictEqual(results.map((it) => [it.tool_call_id, it.status]), [
          ["1", "success"],
          ["2", "success"],
          ["3", "error"],
          ["4", "success"],
          ["5", "success"]
        ])
        assert.strictEqual(results[0]?.text, "read 1")
        assert.include(results[2]?.text, "Correct the arguments")
        assert.deepInclude(results[3]?.contentBlocks[1], { type: "image", mimeType: "image/png", data: "AQID" })
      })
    ))
})
