/** What a server sees of its standard input behind a lifecycle, and what is answered in its place. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sink from "effect/Sink"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as GatewayLifecycle from "../../src/mcp/GatewayLifecycle.ts"
import * as GatewayStdio from "../../src/mcp/GatewayStdio.ts"
import { folder } from "../cli/harness.ts"
import { until } from "../support/commandProcess.ts"
import { notesIn, scripted, start } from "../support/gatewayProcess.ts"
import { logs } from "./fixture.ts"

const seen = Effect.fnUntraced(function*(input: string) {
  const lifecycle = yield* GatewayLifecycle.make()
  yield* lifecycle.open
  const told: Array<string> = []
  const test = Stdio.layerTest({
    stdin: Stream.encodeText(Stream.make(input)),
    stdout: () => Sink.forEach((chunk) => Effect.sync(() => void told.push(String(chunk))))
  })
  const stdio = yield* Effect.provide(Stdio.Stdio, Layer.provide(GatewayStdio.layer(lifecycle), test))
  const read = yield* Stream.mkString(Stream.decodeText(Stream.orDie(stdio.stdin)))
  return { read, codes: told.map((it) => (JSON.parse(it) as { error: { code: number }; id: null }).error.code) }
}, Effect.scoped)

describe("standard input", () => {
  it.effect("is read on after what is no message, which the client and the log are told", () => {
    const log = logs()
    return Effect.gen(function*() {
      const long = `"${"x".repeat(11 * 1024 * 1024)}"`
      const lines = ["{\"id\":1}", "", "garbage", "null", "7", `{"id":${long}}`, "[]", "{\"id\":2}"]
      const { codes, read } = yield* seen(`${lines.join("\n")}\n`)
      assert.strictEqual(read, "{\"id\":1}\n[]\n{\"id\":2}\n")
      assert.deepStrictEqual(codes, [-32_700, -32_600, -32_600, -32_600])
      assert.lengthOf(log.lines, 4)
      assert.include(log.lines[0], "Parse error")
    }).pipe(Effect.provide(log.layer))
  })

  it.effect(
    "refuses an id that has no answer yet, or is invalid, and continues with other requests",
    () =>
      Effect.gen(function*() {
        const ping = (id: unknown) => ({ jsonrpc: "2.0", id, method: "ping" })
        const notice = { jsonrpc: "2.0", method: "notifications/initialized" }
        const answer = { jsonrpc: "2.0", id: 1, result: {} }
        const all = [
          ping(1),
          ping("1"),
          ping(1),
          ping(null),
          ping({}),
          notice,
          notice,
          answer,
          [ping(2), ping(2), ping(3), ping(1), notice],
          [ping(1)],
          ping(4)
        ]
        const { codes, read } = yield* seen(`${all.map((it) => JSON.stringify(it)).join("\n")}\n`)
        assert.deepStrictEqual(read.trim().split("\n").map((it) => JSON.parse(it) as unknown), [
          ping(1),
          ping("1"),
          notice,
          notice,
          answer,
          [ping(2), ping(3), notice],
          ping(4)
        ])
        assert.deepStrictEqual(codes, Array.from({ length: 6 }, () => -32_600))
      }).pipe(Effect.provide(logs().layer)),
    { tags: ["M2"] }
  )
})

describe("a gateway on standard input and output", () => {
  it.live(
    "answers what comes after and beside an id that is used twice, and takes the id again once it is answered",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({})
        const { file: config } = yield* folder({
          "gateway.json": {
            mcpServers: { s: scripted({ notes: file("notes") }) },
            policy: { default: "allow" }
          }
        })
        const { child, find, initialize, messages, send, written } = yield* start("--config", config("gateway.json"))
        initialize()
        yield* until(() => find("id", 0) !== undefined)
        const act = (id: number, ...steps: ReadonlyArray<unknown>) => ({
          jsonrpc: "2.0",
          id,
          method: "tools/call",
          params: { name: "s__act", arguments: { steps } }
        })
        const lines = [act(1, ["hang"]), act(1, ["text", "twice"]), "{\"garbage", {
          jsonrpc: "2.0",
          id: 2,
          method: "ping"
        }]
        child.stdin.write(lines.map((it) => `${typeof it === "string" ? it : JSON.stringify(it)}\n`).join(""))
        yield* until(() => find("id", 2) !== undefined)
        const errors = messages().filter((it) => it["id"] === null).map((it) => (it["error"] as { code: number }).code)
        assert.deepStrictEqual(errors.toSorted(), [-32_600, -32_700])
        assert.isUndefined(find("id", 1), written.stdout)
        // an id whose request has its answer is nobody's
        send({ id: 2, method: "ping" })
        yield* until(() => messages().filter((it) => it["id"] === 2).length === 2)
        yield* until(() => notesIn(file("notes")).some(([what]) => what === "called"))
        child.stdin.end()
        yield* until(() => find("id", 1) !== undefined)
      })),
    30_000
  )
})
