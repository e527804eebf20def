import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NodeFs from "node:fs"
import { fileURLToPath } from "node:url"
import { ToolCall, WireFormat } from "../../src/index.ts"
import { makeFolder, open, said } from "./fixture.ts"

const node = (path: string, ...args: ReadonlyArray<string>) => ({
  command: process.execPath,
  args: [fileURLToPath(new URL(`../../node_modules/@modelcontextprotocol/${path}`, import.meta.url)), ...args]
})

describe.concurrent("the servers of the protocol's authors", () => {
  it.live("server-filesystem reads and writes in its folder", () =>
    Effect.gen(function*() {
      const root = yield* makeFolder
      NodeFs.writeFileSync(`${root}/a.txt`, "alpha\n")
      const { call, executor } = yield* open({
        files: { ...node("server-filesystem/dist/index.js", root), readOnly: ["read_*", "list_*"] }
      })
      assert.strictEqual(said(yield* call("files__read_text_file", { path: `${root}/a.txt` })), "alpha\n")
      assert.strictEqual(
        (yield* call("files__write_file", { path: `${root}/b.txt`, content: "beta" }))._tag,
        "Succeeded"
      )
      assert.strictEqual(NodeFs.readFileSync(`${root}/b.txt`, "utf8"), "beta")
      assert.deepInclude(yield* call("files__read_text_file", { path: "/etc/hostname" }), { _tag: "Failed" })
      assert.deepInclude(yield* call("files__read_text_file", { file: "a.txt" }), { _tag: "Denied" })
      const kinds = new Map((yield* executor.tools).map(({ class: kind, name }) => [name, kind]))
      assert.deepStrictEqual(
        ["read_text_file", "list_directory", "search_files", "write_file"].map((it) => kinds.get(`files__${it}`)),
        ["ReadOnly", "ReadOnly", "SerialMut", "SerialMut"]
      )
    }).pipe(Effect.scoped))

  it.live("server-everything gives texts, images, values and progress", () =>
    Effect.gen(function*() {
      const { call, process } = yield* open({ all: node("server-everything/dist/index.js") })
      assert.strictEqual(said(yield* call("all__echo", { message: "hello" })), "Echo: hello")
      assert.include(said(yield* call("all__get-sum", { a: 2, b: 40 })), "42")
      const picture = yield* call("all__get-tiny-image")
      assert.include(said(picture), "[image/png omitted]")
      const types = WireFormat.write("anthropic", [picture]).content[0]?.content
      assert.deepStrictEqual(Array.isArray(types) && types.map((it) => it.type), ["text", "image", "text"])
      assert.deepStrictEqual(
        WireFormat.write("mcp", [picture])[0]?.result.content.map((it) => it.type),
        ["text", "image", "text"]
      )
      const structured = yield* call("all__get-structured-content", { location: "Chicago" })
      assert.deepInclude(structured._tag === "Succeeded" ? structured.output : {}, { _tag: "Inline" })
      assert.strictEqual((yield* call("all__get-resource-links", { count: 2 }))._tag, "Succeeded")
      const events = yield* Stream.runCollect(
        process.stream([ToolCall.make("long", "all__trigger-long-running-operation", { duration: 0.3, steps: 3 })])
      )
      assert.deepStrictEqual(
        Array.from(events).flatMap((it) => it._tag === "ToolProgress" ? [[it.progress, it.total]] : []),
        [[1, 3], [2, 3], [3, 3]]
      )
    }).pipe(Effect.scoped))
})
