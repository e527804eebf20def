/**
 * How `tool-executor mcp` begins and ends, as a process of its own: a client is
 * answered before the servers are there, and what it left behind is ended with it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { writeFileSync } from "node:fs"
import { until } from "../../support/commandProcess.ts"
import { notesIn, scripted, start } from "../../support/gatewayProcess.ts"
import { folder } from "../harness.ts"

const policies = { allows: { default: "allow" }, asks: { ask: ["s__act"] } } as const

/** A gateway over one scripted server. */
const gateway = Effect.fnUntraced(function*(policy: keyof typeof policies, opensWith?: string) {
  const { file } = yield* folder({})
  const script = { notes: file("notes"), ...opensWith === undefined ? {} : { opensWith: file(opensWith) } }
  const { file: config } = yield* folder({
    "gateway.json": { mcpServers: { s: scripted(script) }, policy: policies[policy] }
  })
  const process = yield* start("--config", config("gateway.json"))
  const calls = () => notesIn(file("notes")).filter(([what]) => what === "called").map(([, it]) => it)
  return { ...process, file, calls, notes: () => notesIn(file("notes")).map(([what]) => what) }
})

const live = (name: string, program: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => Effect.scoped(program))

describe("the end of standard input", () => {
  live(
    "is the end of the client: what runs is cancelled, what waits never starts, and the process is over",
    Effect.gen(function*() {
      const { call, calls, child, ended, initialize, notes, written } = yield* gateway("allows")
      initialize()
      call(1, "s__act", [["hang"]])
      // one at a time: it waits for the other
      call(2, "s__act", [["text", "written"]])
      yield* until(() => calls().length === 1)
      child.stdin.end()
      assert.strictEqual(yield* ended, 0, written.stderr)
      assert.lengthOf(calls(), 1)
      assert.include(notes(), "cancelled")
    })
  )

  live(
    "withdraws what a person is asked",
    Effect.gen(function*() {
      const { call, calls, child, ended, find, initialize, written } = yield* gateway("asks")
      initialize({ elicitation: {} })
      call(1, "s__act", [["text", "written"]])
      yield* until(() => find("method", "elicitation/create") !== undefined)
      child.stdin.end()
      assert.strictEqual(yield* ended, 0, written.stderr)
      assert.lengthOf(calls(), 0)
      assert.isDefined(find("method", "notifications/cancelled"))
    })
  )

  live(
    "ends a gateway whose servers have not come, and what waited for them does not go on",
    Effect.gen(function*() {
      const { call, calls, child, ended, file, find, initialize } = yield* gateway("allows", "open")
      initialize()
      call(1, "s__act", [])
      yield* until(() => find("id", 0) !== undefined)
      child.stdin.end()
      assert.strictEqual(yield* ended, 0)
      writeFileSync(file("open"), "")
      assert.lengthOf(calls(), 0)
    })
  )
})

describe("a gateway that is told to end", () => {
  live(
    "answers every call before it does",
    Effect.gen(function*() {
      const { call, calls, child, ended, find, initialize } = yield* gateway("allows")
      initialize()
      call(1, "s__act", [["hang"]])
      call(2, "s__act", [["text", "written"]])
      yield* until(() => calls().length === 1)
      child.kill("SIGTERM")
      assert.strictEqual(yield* ended, 130)
      for (const id of [1, 2]) {
        const { isError } = find("id", id)!["result"] as { readonly isError?: boolean }
        assert.isTrue(isError, `call ${id}`)
      }
      assert.lengthOf(calls(), 1)
    })
  )
})

describe("a gateway whose servers are slow", () => {
  live(
    "begins a session at once, and lists and calls tools once they are there",
    Effect.gen(function*() {
      const { call, calls, file, find, initialize, send } = yield* gateway("allows", "open")
      initialize()
      yield* until(() => find("id", 0) !== undefined)
      send({ id: 1, method: "tools/list" })
      call(2, "s__act", [["text", "first"]])
      call(3, "s__act", [["text", "second"]])
      call(4, "s__act", [["text", "cancelled"]])
      send({ method: "notifications/cancelled", params: { requestId: 4 } })
      send({ id: 5, method: "ping" })
      yield* until(() => find("id", 5) !== undefined)
      assert.isUndefined(find("id", 1))
      writeFileSync(file("open"), "")
      yield* until(() => find("id", 3) !== undefined)
      const { tools } = find("id", 1)!["result"] as { readonly tools: ReadonlyArray<{ readonly name: string }> }
      assert.include(tools.map((it) => it.name), "s__act")
      assert.deepStrictEqual(calls().map((it) => JSON.stringify(it).match(/first|second|cancelled/)?.[0]), [
        "first",
        "second"
      ])
      assert.isUndefined(find("id", 4))
    })
  )
})
