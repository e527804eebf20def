/** What the tools of this package take, and nothing else. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolHandlers from "../../../src/core/vocabulary/ToolHandlers.ts"
import { ToolAnnotations } from "../../../src/index.ts"
import * as FetchTools from "../../../src/tools/fetch/FetchTools.ts"
import * as ArtifactTools from "../../../src/tools/folders/ArtifactTools.ts"
import * as WorkspaceTools from "../../../src/tools/workspace/WorkspaceTools.ts"
import { calls, run, tags } from "../../support/Harness.ts"

const tools: ReadonlyArray<Tool.Any> = [
  ...Object.values(WorkspaceTools.toolkit.tools),
  ...Object.values(WorkspaceTools.make({ root: "." }).toolkit.tools),
  ...Object.values(FetchTools.toolkit.tools),
  ...Object.values(FetchTools.make().toolkit.tools),
  ...Object.values(ArtifactTools.toolkit.tools)
]

/** What every object schema in a JSON Schema says about properties that it does not declare. */
const excessOf = (schema: unknown): ReadonlyArray<unknown> => {
  if (typeof schema !== "object" || schema === null) return []
  const inner = Object.values(schema).flatMap(excessOf)
  return Reflect.get(schema, "type") === "object" ? [Reflect.get(schema, "additionalProperties"), ...inner] : inner
}

describe("a closed tool", () => {
  it("is each of ours: its JSON Schema allows nothing that it does not declare", () => {
    assert.isAtLeast(tools.length, 15)
    for (const tool of tools) {
      const found = excessOf(ToolHandlers.jsonSchemaOf(tool))
      assert.isNotEmpty(found, tool.name)
      for (const excess of found) assert.isFalse(excess, tool.name)
    }
  })

  it.effect("refuses arguments that it does not declare, at every depth, and others leave them out", () => {
    const parameters = Schema.Struct({ a: Schema.Struct({ b: Schema.Finite }) })
    const seen: Array<unknown> = []
    const handler = (params: unknown) => Effect.sync(() => void seen.push(params))
    const open = Tool.make("open", { parameters }).annotate(Tool.Readonly, true)
    const closed = Tool.make("closed", { parameters }).annotate(Tool.Readonly, true).annotate(
      ToolAnnotations.Closed,
      true
    )
    return run(
      { open: { tool: open, handler }, closed: { tool: closed, handler } },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(
            calls(
              ["open", { a: { b: 1, c: 2 }, d: 3 }],
              ["closed", { a: { b: 1 }, d: 3 }],
              ["closed", { a: { b: 1, c: 2 } }],
              ["closed", { a: { b: 1 } }],
              ["closed", JSON.parse(`{"a":{"b":2},"__proto__":{}}`)]
            )
          )
          const no = "InvalidParameters"
          assert.deepStrictEqual(tags(wave), ["Succeeded", no, no, "Succeeded", no])
          assert.deepStrictEqual(seen, [{ a: { b: 1 } }, { a: { b: 1 } }])
          assert.include(wave.toolMessages[1]?.text, "d")
          const [shown] = (yield* process.tools).filter((it) => it.name === "closed")
          assert.strictEqual(shown?.jsonSchema.additionalProperties, false)
        })
    )
  })
})
