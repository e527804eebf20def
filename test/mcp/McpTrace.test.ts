/** A trace goes through MCP, into the executor and out of it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import * as Gateway from "../support/gateway.ts"
import * as Fixture from "./fixture.ts"

const recorder = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, tracer }
}

const traceId = "0af7651916cd43dd8448eb211c80319c"
const traceparent = `00-${traceId}-b7ad6b7169203331-01`

const parentOf = (span: Tracer.Span | undefined) => span && Option.getOrUndefined(span.parent)

describe("a call of a client of the gateway", () => {
  const tools = { good: () => Effect.succeed("good"), bad: () => Effect.fail("no") }

  for (const place of ["alone", "in a turn"]) {
    it.effect(`${place} has a span within the trace that its client names, and the execution is within that`, () => {
      const { spans, tracer } = recorder()
      const turn = place === "alone" ? {} : { "effect-tool-executor/wave": { id: "t", index: 0, size: 1 } }
      return Effect.gen(function*() {
        yield* Gateway.run(tools, {}, (gateway) =>
          Effect.gen(function*() {
            const { call } = yield* gateway.connect()
            yield* call("good", {}, { ...turn, traceparent })
          }))
        const server = spans.find(({ name }) => name === "tools/call good")
        assert.deepStrictEqual([server?.kind, server?.traceId, parentOf(server)?.spanId], [
          "server",
          traceId,
          "b7ad6b7169203331"
        ])
        const executed = spans.find(({ name }) => name === "execute_tool good")
        assert.strictEqual(executed?.traceId, traceId)
      }).pipe(Effect.provideService(Tracer.Tracer, tracer))
    })
  }

  it.effect("that fails is an error, and a trace that is none is left alone", () => {
    const { spans, tracer } = recorder()
    return Effect.gen(function*() {
      yield* Gateway.run(tools, {}, (gateway) =>
        Effect.gen(function*() {
          const { call } = yield* gateway.connect()
          for (const wrong of ["", "00-0-0-0", 7, `00-${"0".repeat(32)}-b7ad6b7169203331-01`]) {
            const { text } = yield* call("bad", {}, { traceparent: wrong })
            assert.include(text, "no")
          }
        }))
      const seen = spans.filter(({ name }) => name === "tools/call bad")
      assert.lengthOf(seen, 4)
      for (const span of seen) assert.strictEqual(span.attributes.get("error.type"), "tool_error")
    }).pipe(Effect.provideService(Tracer.Tracer, tracer))
  })
})

describe("a call to a server behind the executor", () => {
  it.live("has a span of a client, and the server is told of it", () => {
    const { spans, tracer } = recorder()
    return Effect.gen(function*() {
      const server = yield* Fixture.http()
      const { act } = yield* Fixture.open({ a: { url: server.url } })
      yield* act("a").pipe(Effect.provideService(Tracer.Tracer, tracer))
      const span = spans.find(({ name }) => name === "tools/call act")
      assert.strictEqual(span?.kind, "client")
      const execution = parentOf(span)
      assert.strictEqual(execution?._tag === "Span" ? execution.name : "", "execute_tool a__act")
      const [params] = server.noted("called")
      assert.deepInclude((params as { readonly _meta: object })._meta, {
        traceparent: `00-${span?.traceId}-${span?.spanId}-01`
      })
    }).pipe(Effect.scoped)
  })
})
