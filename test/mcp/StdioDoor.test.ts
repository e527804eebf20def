/** What a server sees of its standard input behind a door. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as McpDoor from "../../src/mcp/McpDoor.ts"
import { logs } from "./fixture.ts"

const seen = Effect.fnUntraced(function*(input: string) {
  const door = yield* McpDoor.make()
  yield* door.open
  const stdin = Stdio.layerTest({ stdin: Stream.encodeText(Stream.make(input)) })
  const stdio = yield* Effect.provide(Stdio.Stdio, Layer.provide(McpDoor.layerStdio(door), stdin))
  return yield* Stream.mkString(Stream.decodeText(Stream.orDie(stdio.stdin)))
}, Effect.scoped)

describe("standard input", () => {
  it.effect("is read on after what is no message, which the log tells", () => {
    const log = logs()
    return Effect.gen(function*() {
      const long = `"${"x".repeat(11 * 1024 * 1024)}"`
      const lines = ["{\"id\":1}", "", "garbage", "null", "7", `{"id":${long}}`, "[]", "{\"id\":2}"]
      assert.strictEqual(yield* seen(`${lines.join("\n")}\n`), "{\"id\":1}\n[]\n{\"id\":2}\n")
      assert.lengthOf(log.lines, 4)
      assert.include(log.lines[0], "it is not a message")
    }).pipe(Effect.provide(log.layer))
  })
})
