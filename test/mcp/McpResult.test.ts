import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as McpResult from "../../src/mcp/McpResult.ts"

const text = (text: string) => ({ type: "text", text })

const file = (type: string, chars: number) => ({ type, mimeType: "image/png", data: "a".repeat(chars) })

const blob = (chars: number) => ({ type: "resource", resource: { uri: "file:///b.bin", blob: "a".repeat(chars) } })

const from = (content: ReadonlyArray<McpResult.Block>, maxChars = 100, structuredContent?: Record<string, unknown>) =>
  McpResult.from({ content, ...structuredContent === undefined ? {} : { structuredContent } } as never, maxChars)

/** Blocks of known kinds with fields of any kind. */
const Odd = Schema.Struct({
  type: Schema.Literals(["text", "image", "audio", "resource", "resource_link", "other"]),
  text: Schema.optionalKey(Schema.Json),
  data: Schema.optionalKey(Schema.Json),
  mimeType: Schema.optionalKey(Schema.Json),
  uri: Schema.optionalKey(Schema.Json),
  name: Schema.optionalKey(Schema.Json),
  resource: Schema.optionalKey(Schema.Union([
    Schema.Json,
    Schema.Struct({ uri: Schema.Json, blob: Schema.Json, mimeType: Schema.Json }),
    Schema.Struct({ uri: Schema.Json, text: Schema.Json })
  ]))
})

describe("McpResult", () => {
  it("tells texts as they are, links by their address, files by their kind", () => {
    const result = from([
      text("one\ntwo"),
      { type: "resource_link", name: "readme", uri: "file:///a.md" },
      { type: "resource", resource: { uri: "file:///a.md", text: "# A" } },
      file("image", 4),
      file("audio", 4),
      blob(4)
    ])
    assert.strictEqual(
      McpResult.textOf(result),
      "one\ntwo\n[readme: file:///a.md]\n# A\n[image/png omitted]\n[image/png omitted]\n" +
        "[application/octet-stream file:///b.bin omitted]"
    )
  })

  it("tells the value where there is nothing else", () => {
    assert.strictEqual(McpResult.textOf(from([], 100, { n: 1 })), `{"n":1}`)
    assert.strictEqual(McpResult.textOf(from([text("one")], 100, { n: 1 })), "one")
    assert.strictEqual(McpResult.textOf(from([])), "")
  })

  it("leaves out files of more than so many characters, and says so", () => {
    for (const block of [file("image", 101), file("audio", 101)]) {
      assert.deepStrictEqual(from([block]).content, [
        text("[image/png of 101 characters as base64 was left out: more than 100]")
      ])
    }
    assert.deepStrictEqual(from([blob(101)]).content, [
      text("[application/octet-stream of 101 characters as base64 was left out: more than 100]")
    ])
    const kept = [file("image", 100), file("audio", 100), blob(100), text("a".repeat(1_000))]
    assert.deepStrictEqual(from(kept).content, kept)
  })

  it.prop("has a text for whatever comes, of no more files than allowed", [Schema.Array(Odd)], ([blocks]) => {
    const result = from(blocks, 3)
    assert.isTrue(Schema.is(McpResult.McpResult)(result))
    const parts = McpResult.toModelOutput(result)
    assert.lengthOf(parts, blocks.length)
    for (const part of parts) {
      if (part.type === "text") assert.isString(part.text)
      else assert.isAtMost((part.data as string).length, 3)
    }
    assert.isString(McpResult.textOf(result))
  })

  it("has a text for a link whose name is none", () => {
    const [part] = McpResult.toModelOutput(
      from([{ type: "resource_link", uri: "file:///a", name: Object.create(null) }])
    )
    assert.strictEqual(part?.type === "text" ? part.text : undefined, "[a resource: file:///a]")
  })

  it.prop("leaves small blocks alone", [Schema.Array(Odd)], ([blocks]) => {
    assert.deepStrictEqual(from(blocks, Infinity).content, blocks)
  })
})
