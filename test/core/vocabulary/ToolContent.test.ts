import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as ToolContent from "../../../src/core/vocabulary/ToolContent.ts"

const file = (data: string | Uint8Array | URL, mediaType = "image/png", fileName?: string) =>
  Prompt.filePart({ mediaType, data, ...fileName === undefined ? {} : { fileName } })

const from = (...parts: ReadonlyArray<Prompt.ToolModelOutputPart>) => ToolContent.fromModelOutput(parts)

const png = (data: string): ToolContent.Part => ({ type: "file", mediaType: "image/png", data })

describe("ToolContent", () => {
  it("takes base64, bytes and data addresses alike", () => {
    for (
      const data of [
        "AQID",
        "AQ\r\nID",
        new Uint8Array([1, 2, 3]),
        "data:image/png;base64,AQID",
        new URL("data:;base64,AQID")
      ]
    ) {
      assert.deepStrictEqual(from(file(data)), [png("AQID")])
    }
  })

  it("takes media types without their parameters, and unknown ones for bytes", () => {
    const types = ["IMAGE/PNG; q=1", "image/png\"", "", "x".repeat(1_000_000)].map((it) => from(file("AQID", it))[0])
    assert.deepStrictEqual(types.map((it) => it?.type === "file" && it.mediaType), [
      "image/png",
      "application/octet-stream",
      "application/octet-stream",
      "application/octet-stream"
    ])
  })

  it("names what is only an address, and what is no base64", () => {
    assert.deepStrictEqual(
      from(file(new URL("https://a.b/c.png")), file("https://a.b/c", "image/png", "c"), file("no!"), file("")),
      [
        "[image/png at https://a.b/c.png]",
        "[image/png c at https://a.b/c]",
        "[image/png omitted: its content is not base64]",
        "[image/png omitted: its content is not base64]"
      ].map(ToolContent.text)
    )
  })

  it("checks megabytes", () => {
    const data = "A".repeat(8_000_000)
    assert.deepStrictEqual(from(file(data)), [png(data)])
    assert.strictEqual(from(file(`${data}!!!!`))[0]?.type, "text")
  })

  it("keeps files within a number of characters and of files, and says what it leaves out", () => {
    const content = [ToolContent.text("one"), png("AAAA"), png("AAAAAAAA"), png("AAAA")] as const
    assert.strictEqual(ToolContent.within(content, 16), content)
    assert.deepStrictEqual(ToolContent.within(content, 8), [
      content[0],
      content[1],
      ToolContent.text("[image/png of 8 characters as base64 left out: too much to show]"),
      content[3]
    ])
    const many = Array.from({ length: 100 }, () => png("AAAA"))
    assert.lengthOf(ToolContent.within(many, 1_000_000).filter(ToolContent.isFile), 20)
    assert.strictEqual(ToolContent.within(many, Infinity), many)
  })

  it("comes back from effect/ai as it was", () => {
    const content: ToolContent.ToolContent = [ToolContent.text("a"), { ...png("AQID"), fileName: "a.png" } as never]
    assert.deepStrictEqual(ToolContent.fromModelOutput(ToolContent.toModelOutput(content)), content)
  })

  it.prop(
    "gives parts of its schema for any that a tool gives",
    [Schema.Array(Prompt.ToolModelOutputPart)],
    ([parts]) => {
      assert.isTrue(Schema.is(Schema.Array(ToolContent.Part))(ToolContent.fromModelOutput(parts)))
    }
  )
})
