/** The executor as an MCP server, seen by official clients in memory. */
import { assert, describe, it } from "@effect/vitest"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpSchema from "effect/ai/McpSchema"
import * as McpTest from "effect/ai/McpTest"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as ToolHandlers from "../../src/core/vocabulary/ToolHandlers.ts"
import { LocalExecutor, ToolAnnotations, ToolContext, ToolExecutor, ToolExecutors } from "../../src/index.ts"
import * as McpGateway from "../../src/mcp/McpGateway.ts"
import * as McpResult from "../../src/mcp/McpResult.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import {
  caller,
  type Connected,
  open,
  registrations,
  registryOf,
  type Result,
  run,
  type Tools,
  traced
} from "../support/gateway.ts"
import type { ToolSpec } from "../support/Harness.ts"
import { makeClient, serve } from "../support/mcpServer.ts"

const names = ({ client }: Connected) =>
  Effect.promise(() => client.listTools()).pipe(
    Effect.map(({ tools }) => tools.map((it) => it.name).filter((it) => !it.endsWith("_artifact")))
  )

const echo = (params: object) => Effect.succeed(params)

/** Everything that was sent as an answer to a request for a call. */
const answers = ({ messages }: Connected) => {
  const calls = messages.flatMap(({ from, message }) =>
    from === "client" && "method" in message && message.method === "tools/call" && "id" in message ? [message.id] : []
  )
  return messages.filter(({ from, message }) =>
    from === "server" && "id" in message && !("method" in message) && calls.includes(message.id!)
  ).length
}

const notes = ({ messages }: Connected, method: string) =>
  messages.filter(({ from, message }) => from === "server" && "method" in message && message.method === method)

const all = <A>(effects: ReadonlyArray<Effect.Effect<A>>) => Effect.all(effects, { concurrency: "unbounded" })

describe("the tools of a gateway", () => {
  const search: ToolSpec = {
    handler: echo,
    tool: Tool.make("search", {
      description: "Finds documents",
      parameters: Schema.Struct({ query: Schema.String }),
      success: Schema.Unknown
    }).annotate(Tool.Readonly, true)
  }

  it.effect("say what they declare, and what MCP takes for granted of the rest", () =>
    run(
      {
        closed: {
          tool: Tool.make("closed", { parameters: Tool.EmptyParams, success: Schema.String })
            .annotate(Tool.Title, "Closed").annotate(Tool.Destructive, false).annotate(Tool.Idempotent, true)
            .annotate(Tool.OpenWorld, false),
          handler: echo
        },
        open: { tool: Tool.make("open", { parameters: Tool.EmptyParams, success: Schema.String }), handler: echo }
      },
      {},
      ({ connect }) =>
        Effect.gen(function*() {
          const { client } = yield* connect()
          const { tools: [closed, open] } = yield* Effect.promise(() => client.listTools())
          assert.strictEqual(closed?.title, "Closed")
          assert.deepInclude(closed?.annotations, {
            readOnlyHint: false,
            destructiveHint: false,
            idempotentHint: true,
            openWorldHint: false
          })
          assert.deepInclude(open?.annotations, { destructiveHint: true, idempotentHint: false, openWorldHint: true })
        })
    ))

  it.effect("are listed with their schemas and what they say about themselves", () =>
    run({ search, write: { class: "SerialMut", handler: echo } }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { client } = yield* connect()
        const { tools } = yield* Effect.promise(() => client.listTools())
        const [first, second] = tools
        assert.strictEqual(first?.description, "Finds documents")
        assert.deepStrictEqual(first?.inputSchema.properties, { query: { type: "string" } })
        assert.deepStrictEqual(first?.inputSchema.required, ["query"])
        assert.deepInclude(first?.annotations, { readOnlyHint: true, destructiveHint: false })
        assert.deepInclude(second?.annotations, { readOnlyHint: false, destructiveHint: true })
        assert.strictEqual(second?.inputSchema.type, "object")
      })))

  it.effect("are not found where there are none of the name, or the policy hides them", () =>
    run(
      { search, hidden: echo },
      { policy: { default: "allow", deny: ["hidden"] } },
      ({ connect }) =>
        Effect.gen(function*() {
          const connected = yield* connect()
          assert.deepStrictEqual(yield* names(connected), ["search"])
          for (const name of ["hidden", "unknown", "__proto__", ""]) {
            const { refused } = yield* connected.call(name, {})
            assert.include(refused, `'${name}' not found`)
          }
        })
    ))

  it.effect("come, change and go while clients are connected, which are told", () =>
    run(
      { a: () => Effect.succeed("a"), b: () => Effect.succeed("b") },
      { dedupe: false },
      ({ connect, replace }) =>
        Effect.gen(function*() {
          const clients = [yield* connect(), yield* connect()]
          const changed: ToolSpec = {
            handler: () => Effect.succeed("another a"),
            annotate: (tool) => tool.annotate(ToolAnnotations.Promoted, true)
          }
          yield* replace({ a: { ...changed, class: "SerialMut" }, c: () => Effect.succeed("c") })
          yield* Effect.sleep(1)
          for (const it of clients) {
            assert.deepStrictEqual((yield* names(it)).toSorted(), ["a", "c"])
            assert.isAtLeast(notes(it, "notifications/tools/list_changed").length, 1)
            assert.include((yield* it.call("b", {})).refused, "not found")
            assert.strictEqual((yield* it.call("c", {})).text, "c")
            assert.strictEqual((yield* it.call("a", {})).text, "another a")
          }
          const { tools } = yield* Effect.promise(() => clients[0]!.client.listTools())
          assert.isFalse(tools.find((it) => it.name === "a")?.annotations?.readOnlyHint)
          const told = notes(clients[0]!, "notifications/tools/list_changed").length
          yield* replace({ b: () => Effect.succeed("b again") })
          yield* Effect.sleep(1)
          assert.deepStrictEqual(yield* names(clients[0]!), ["b"])
          assert.strictEqual((yield* clients[0]!.call("b", {})).text, "b again")
          assert.isAbove(notes(clients[0]!, "notifications/tools/list_changed").length, told)
        })
    ))

  it.effect("are those of the last of many changes", () =>
    run({ t0: echo }, {}, ({ connect, replace }) =>
      Effect.gen(function*() {
        const connected = yield* connect()
        for (let n = 1; n <= 20; n++) yield* replace({ [`t${n}`]: echo, ...n % 2 === 0 ? { even: echo } : {} })
        yield* Effect.sleep(1)
        assert.deepStrictEqual((yield* names(connected)).toSorted(), ["even", "t20"])
      })))
})

describe("the tools of a gateway that begins", () => {
  it.effect("are those of a change that comes while it does", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const many = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`old${n}`, echo]))
        const handlers = ToolHandlers.fromRegistry(yield* registryOf(many))
        const gates = LocalExecutor.layerGates().pipe(
          Layer.provideMerge(Layer.succeed(ToolHandlers.ToolHandlers, handlers))
        )
        const context = yield* Layer.build(ToolExecutor.layer.pipe(Layer.provide(gates)))
        const executor = Context.get(context, ToolExecutor.ToolExecutor)
        const next = yield* registryOf({ next: echo })
        // the list is old as soon as it has been read
        const tools = Effect.tap(
          executor.tools,
          () => handlers.current() === next ? Effect.void : handlers.replace(next)
        )
        const connect = yield* serve(
          McpGateway.layer().pipe(Layer.provide(Layer.succeed(ToolExecutor.ToolExecutor, { ...executor, tools })))
        )
        const client = makeClient()
        yield* connect(client)
        yield* Effect.sleep(1)
        const listed = yield* Effect.promise(() => client.listTools())
        assert.deepStrictEqual(
          listed.tools.map((it) => it.name).filter((it) => !it.endsWith("_artifact")),
          ["next"]
        )
      })),
      { limit: "1 hour" }
    ))
})

describe("the result of a call", () => {
  const image = { type: "image", data: "aGk=", mimeType: "image/png" }
  const blocks: ReadonlyArray<object> = [
    { type: "text", text: "a picture" },
    image,
    { type: "resource_link", uri: "file:///a", name: "a" },
    { type: "resource", resource: { uri: "file:///b", mimeType: "text/plain", text: "b" } }
  ]
  const foreign = (value: object): ToolSpec => ({
    handler: () => Effect.succeed(value),
    tool: Tool.dynamic("foreign", {
      parameters: { type: "object" },
      success: McpResult.McpResult,
      toModelOutput: McpResult.toModelOutput
    }).annotate(Tool.Readonly, true)
  })
  const of = (tools: Tools, name: string) =>
    run(tools, {}, ({ connect }) => Effect.flatMap(connect(), ({ call }) => call(name, {})))

  it.effect("is its text, and its value where that is an object", () =>
    Effect.gen(function*() {
      const tools: Tools = {
        text: () => Effect.succeed("just text"),
        list: () => Effect.succeed([1, 2]),
        object: () => Effect.succeed({ a: 1, b: { c: ["d"] } })
      }
      const text = yield* of(tools, "text")
      assert.deepStrictEqual([text.text, text.structuredContent, text.isError], ["just text", undefined, false])
      const list = yield* of(tools, "list")
      assert.deepStrictEqual([list.text, list.structuredContent], ["[1,2]", undefined])
      const object = yield* of(tools, "object")
      assert.deepStrictEqual(object.structuredContent, { a: 1, b: { c: ["d"] } })
      assert.deepStrictEqual(JSON.parse(object.text), object.structuredContent)
    }))

  it.effect("is plain JSON, whatever a tool gave", () =>
    Effect.gen(function*() {
      const given = { map: new Map([["k", 1]]), date: new Date(0), none: undefined, nan: NaN }
      const result = yield* of({ odd: () => Effect.succeed(given), day: () => Effect.succeed(new Date(0)) }, "odd")
      assert.deepStrictEqual(result.structuredContent, {
        map: [["k", 1]],
        date: "1970-01-01T00:00:00.000Z",
        nan: null
      })
      const day = yield* of({ day: () => Effect.succeed(new Date(0)) }, "day")
      assert.deepStrictEqual([day.isError, day.refused, day.structuredContent], [false, undefined, undefined])
    }))

  it.effect("of an MCP tool is handed on as it is, images and all", () =>
    Effect.gen(function*() {
      const { content, structuredContent } = yield* of(
        { foreign: foreign({ content: blocks, structuredContent: { n: 1 } }) },
        "foreign"
      )
      assert.deepStrictEqual(content, blocks)
      assert.deepStrictEqual(structuredContent, { n: 1 })
    }))

  it.effect("has the images of any tool", () =>
    Effect.gen(function*() {
      const tool = Tool.make("shot", {
        success: Schema.Struct({ png: Schema.String }),
        toModelOutput: ({ png }) => [
          Prompt.textPart({ text: "a picture" }),
          Prompt.filePart({ mediaType: "image/png", data: png })
        ]
      }).annotate(Tool.Readonly, true)
      const { content, structuredContent } = yield* of(
        { shot: { tool, handler: () => Effect.succeed({ png: "aGk=" }) } },
        "shot"
      )
      assert.deepStrictEqual(content, [{ type: "text", text: "a picture" }, image])
      assert.deepStrictEqual(structuredContent, { png: "aGk=" })
    }))

  it.effect("that only looks like one of an MCP tool loses nothing", () =>
    Effect.gen(function*() {
      const page = { content: [{ type: "text", text: "first" }], next: 2 }
      const { isError, structuredContent } = yield* of({ page: () => Effect.succeed(page) }, "page")
      assert.deepStrictEqual([isError, structuredContent], [false, page])
      const failed = { content: [], isError: true }
      assert.isFalse((yield* of({ failed: () => Effect.succeed(failed) }, "failed")).isError)
      const strange = { content: [{ type: "hologram", x: 1 }] }
      assert.deepStrictEqual(
        (yield* of({ strange: () => Effect.succeed(strange) }, "strange")).structuredContent,
        strange
      )
    }))

  it.effect("that is large is a preview, and the same session reads on, and no other", () =>
    run({ large: () => Effect.succeed("0123456789".repeat(5_000)) }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const { isError, structuredContent, text } = yield* call("large", {})
        assert.deepStrictEqual([isError, structuredContent], [false, undefined])
        assert.isAtMost(text.length, 10_000)
        assert.include(text, "Read on with read_artifact")
        const id = /artifact (art_\w+)/.exec(text)![1]!
        const rest = yield* call("read_artifact", { id, offset: 49_990, length: 10 })
        assert.include(rest.text, "0123456789")
        const other = yield* connect()
        assert.isTrue((yield* other.call("read_artifact", { id })).isError)
      })))

  it.effect("is an error with a text for the model, whatever did not succeed", () =>
    run(
      {
        fails: () => Effect.fail({ code: 3 }),
        dies: () => Effect.die(new Error("secret")),
        interrupts: () => Effect.interrupt,
        hangs: () => Effect.never,
        cyclic: () =>
          Effect.sync(() => {
            const loop: Record<string, unknown> = {}
            loop.loop = loop
            return loop
          }),
        once: echo,
        asks: echo,
        picky: {
          handler: echo,
          tool: Tool.make("picky", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Unknown })
        }
      },
      {
        policy: { default: "allow", ask: ["asks"], deny: ["picky(*)"] },
        executionTimeout: "5 seconds",
        rules: [{ _tag: "MaxCalls", tool: "once", max: 1 }]
      },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const of = (name: string, args: Record<string, unknown> = {}) => call(name, args)
          assert.isFalse((yield* of("once")).isError)
          const expected: ReadonlyArray<readonly [Result, string]> = [
            [yield* of("fails"), "\"code\":3"],
            [yield* of("dies"), "internal error"],
            [yield* of("interrupts"), "internal error"],
            [yield* of("hangs"), "5 s"],
            [yield* of("cyclic"), "its output is invalid"],
            [yield* of("once", { n: 1 }), "limit of 1 call"],
            [yield* of("asks"), "needs approval"],
            [yield* of("picky", { n: "one" }), "Correct the arguments"],
            [yield* of("picky", {}), "Correct the arguments"],
            [yield* call("picky"), "Correct the arguments"]
          ]
          for (const [{ isError, refused, structuredContent, text }, part] of expected) {
            assert.deepStrictEqual([isError, refused, structuredContent], [true, undefined, undefined], text)
            assert.include(text, part)
            assert.notInclude(text, "secret")
          }
        })
    ))

  it.effect("is that of no arguments where there are none", () =>
    run({ echo }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        assert.deepStrictEqual((yield* call("echo")).structuredContent, {})
      })))

  it.effect("comes with the whole outcome for a client that asks, without what a defect says", () =>
    run({ dies: () => Effect.die(new Error("secret")), echo }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const meta = { [McpGateway.outcomeKey]: true, [McpGateway.callKey]: "mine" }
        const { meta: outcome, structuredContent } = yield* call("echo", { n: 1 }, meta)
        assert.deepInclude(outcome?.[McpGateway.outcomeKey] as object, { _tag: "Succeeded", callId: "mine" })
        assert.deepStrictEqual(structuredContent, { n: 1 })
        const died = yield* call("dies", {}, meta)
        assert.deepInclude(died.meta?.[McpGateway.outcomeKey] as object, { _tag: "Failed", origin: "defect" })
        assert.notInclude(JSON.stringify(died), "secret")
        assert.isUndefined((yield* call("echo", {}, { [McpGateway.outcomeKey]: "yes" })).meta)
      })))

  it.effect("says what would be right where the id in `_meta` is none", () =>
    run({ echo }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        for (const id of [7, "x".repeat(1_001)]) {
          const { isError, text } = yield* call("echo", {}, { [McpGateway.callKey]: id })
          const expected = `_meta["${McpGateway.callKey}"]: expected a string of at most 1000 characters`
          assert.deepStrictEqual([isError, text], [true, expected])
        }
        assert.isFalse((yield* call("echo", {}, { [McpGateway.callKey]: "x".repeat(1_000) })).isError)
      })))
})

describe("progress", () => {
  const reporting: Tools = {
    work: ({ steps }) =>
      Effect.flatMap(ToolContext.ToolContext, ({ progress }) =>
        Effect.as(
          Effect.forEach(
            steps as ReadonlyArray<object>,
            (step) => Effect.andThen(progress(step), Effect.sleep(10)),
            { discard: true }
          ),
          "done"
        ))
  }
  const of = (steps: ReadonlyArray<object>) =>
    run(reporting, {}, ({ connect }) =>
      Effect.gen(function*() {
        const connected = yield* connect()
        const seen: Array<object> = []
        yield* connected.call("work", { steps }, undefined, (it) => seen.push(it))
        return { connected, seen }
      }))

  it.effect("reaches the client as the tool reports it", () =>
    Effect.gen(function*() {
      const steps = [
        { progress: 0, total: 1, message: "begun" },
        { progress: 0.25, total: 1 },
        { progress: 1, total: 1 }
      ]
      assert.deepStrictEqual((yield* of(steps)).seen, steps)
    }))

  it.effect("grows, also where the tool goes back, says nothing, or what is no number", () =>
    Effect.gen(function*() {
      const { seen } = yield* of([
        { message: "a" },
        { progress: 0.5, total: 1 },
        { message: "b" },
        { progress: 0.1 },
        { progress: 1e12 },
        { progress: 1 },
        { progress: 2e12, total: 3e12 }
      ])
      const values = seen.map((it) => (it as { readonly progress: number }).progress)
      assert.lengthOf(values, 7)
      for (const [index, value] of values.entries()) if (index > 0) assert.isAbove(value, values[index - 1]!)
      assert.deepInclude(seen[1], { progress: 0.5, total: 1 })
      assert.strictEqual(values.at(-1), 2e12)
    }))

  it.effect("that is no number does not end it", () =>
    run(
      {
        work: () =>
          Effect.flatMap(ToolContext.ToolContext, ({ progress }) =>
            Effect.forEach([1, NaN, Infinity, 2], (it) =>
              Effect.andThen(progress({ progress: it, total: it }), Effect.sleep(1))))
      },
      {},
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const seen: Array<object> = []
          yield* call("work", {}, undefined, (it) =>
            seen.push(it))
          assert.lengthOf(seen, 4)
          assert.deepInclude(seen[3], { progress: 2, total: 2 })
        })
    ))

  it.effect("is told before the answer, to the last step", () =>
    run(
      { work: () => Effect.flatMap(ToolContext.ToolContext, ({ progress }) => progress({ progress: 1, total: 1 })) },
      {},
      ({ connect }) =>
        Effect.gen(function*() {
          const connected = yield* connect()
          yield* connected.call("work", {}, undefined, () => undefined)
          const [told] = notes(connected, "notifications/progress")
          const last = connected.messages.at(-1)
          assert.isDefined(told)
          assert.isTrue(last !== undefined && "result" in last.message)
        })
    ))

  it.effect("is for the call and the client that asked for it alone", () =>
    run(reporting, {}, ({ connect }) =>
      Effect.gen(function*() {
        const [one, other] = [yield* connect(), yield* connect()]
        const seen: Array<object> = []
        const steps = (progress: number) => ({ steps: [{ progress }] })
        yield* all([
          one.call("work", steps(1), undefined, (it) => seen.push(it)),
          one.call("work", steps(2)),
          other.call("work", steps(3))
        ])
        assert.deepStrictEqual(seen, [{ progress: 1 }])
        assert.lengthOf(notes(one, "notifications/progress"), 1)
        assert.lengthOf(notes(other, "notifications/progress"), 0)
      })))
})

describe("a call that its client cancels", () => {
  it.effect("is interrupted and not answered; its siblings go on", () => {
    const { handler, log } = traced()
    return run({ read: handler("r", 1_000) }, {}, ({ connect }) =>
      Effect.gen(function*() {
        const connected = yield* connect()
        const fibers = yield* Effect.forEach(
          [1, 2, 3],
          (n) => Effect.forkChild(connected.call("read", { n }), { startImmediately: true })
        )
        yield* Effect.sleep(500)
        yield* Fiber.interrupt(fibers[1]!)
        yield* Effect.sleep(1)
        assert.deepStrictEqual(log, ["+r1", "+r2", "+r3", "!r2"])
        assert.strictEqual((yield* Fiber.join(fibers[0]!)).text, "r1")
        assert.strictEqual((yield* Fiber.join(fibers[2]!)).text, "r3")
        yield* Effect.sleep("1 minute")
        assert.strictEqual(answers(connected), 2)
      }))
  })

  it.effect("gives back what it held, and what it never used", () => {
    const { handler, log } = traced()
    return run(
      { write: { class: "SerialMut", handler: handler("w", 1_000) } },
      { rules: [{ _tag: "MaxCalls", tool: "write", max: 2 }] },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const [first, second] = yield* Effect.forEach(
            [1, 2],
            (n) => Effect.forkChild(call("write", { n }), { startImmediately: true })
          )
          yield* Effect.sleep(500)
          yield* all([Fiber.interrupt(first!), Fiber.interrupt(second!)])
          // the second never began: its start is left for this one
          assert.strictEqual((yield* call("write", { n: 3 })).text, "w3")
          assert.include((yield* call("write", { n: 4 })).text, "limit of 2 calls")
          assert.deepStrictEqual(log, ["+w1", "!w1", "+w3", "-w3"])
        })
    )
  })
})

describe("a client that is gone", () => {
  it.effect("takes its calls with it, and nobody else's", () => {
    const { handler, log } = traced()
    return run({ read: handler("r", 1_000) }, { sessions: true }, ({ connect }) =>
      Effect.gen(function*() {
        const [gone, stays] = [yield* connect(), yield* connect()]
        yield* Effect.forkChild(gone.call("read", { n: 1 }), { startImmediately: true })
        const other = yield* Effect.forkChild(stays.call("read", { n: 2 }), { startImmediately: true })
        yield* Effect.sleep(500)
        gone.cut()
        yield* Effect.sleep(1)
        assert.deepStrictEqual(log, ["+r1", "+r2", "!r1"])
        assert.strictEqual((yield* Fiber.join(other)).text, "r2")
      }))
  })

  it.effect("and a server that ends leave no handler behind", () => {
    const { handler, log } = traced()
    return VirtualTime.run(
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const { connect } = yield* Scope.provide(
          open({ read: handler("r", 60_000), write: { class: "SerialMut", handler: handler("w", 60_000) } }),
          scope
        )
        const [one, other] = [yield* connect(), yield* connect()]
        for (const [index, { call }] of [one, other].entries()) {
          yield* Effect.forkChild(call("read", { n: index }), { startImmediately: true })
          yield* Effect.forkChild(call("write", { n: index }), { startImmediately: true })
        }
        yield* Effect.sleep(500)
        const from = yield* VirtualTime.now
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* VirtualTime.now) - from, 0)
        assert.deepStrictEqual(log.toSorted(), ["!r0", "!r1", "+r0", "+r1"])
      }),
      { limit: "1 hour" }
    )
  })
})

describe("calls that come one by one", () => {
  it.effect("overlap where they read, and a write waits for those before it and holds back those after it", () => {
    const { handler, log } = traced()
    return run(
      { read: handler("r", 1_000), write: { class: "SerialMut", handler: handler("w", 1_000) } },
      {},
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const from = yield* VirtualTime.now
          yield* all([
            call("read", { n: 1 }),
            call("read", { n: 2 }),
            call("write", { n: 3 }),
            call("read", { n: 4 }),
            call("write", { n: 5 })
          ])
          assert.deepStrictEqual(log, "+r1 +r2 -r1 -r2 +w3 -w3 +r4 -r4 +w5 -w5".split(" "))
          assert.strictEqual((yield* VirtualTime.now) - from, 4_000)
        })
    )
  })

  it.effect("are all answered, two hundred at once, within the pool", () => {
    const { handler, log } = traced()
    return run({ read: handler("r", 1_000) }, { pools: { read: 20 } }, ({ connect }) =>
      Effect.gen(function*() {
        const { call } = yield* connect()
        const from = yield* VirtualTime.now
        const results = yield* all(Array.from({ length: 200 }, (_, n) => call("read", { n })))
        assert.deepStrictEqual(results.map((it) => it.text), Array.from({ length: 200 }, (_, n) => `r${n}`))
        assert.lengthOf(log, 400)
        assert.strictEqual((yield* VirtualTime.now) - from, 10_000)
      }))
  })

  it.effect("have ids of their own beside those that a client gives", () =>
    run(
      { id: () => Effect.delay(Effect.map(ToolContext.ToolContext, (it) => it.callId), 1) },
      { dedupe: false },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          const results = yield* all([
            call("id", {}, { [McpGateway.callKey]: "call_1" }),
            call("id", {}),
            call("id", {})
          ])
          assert.strictEqual(new Set(results.map((it) => it.text)).size, 3)
          assert.strictEqual(results[0]?.text, "call_1")
        })
    ))
})

describe("sessions", () => {
  const counted = (): Tools => {
    let count = 0
    return {
      count: { class: "SerialMut", handler: () => Effect.sync(() => ++count) },
      large: () => Effect.succeed("x".repeat(50_000)),
      last: echo
    }
  }

  for (const sessions of [false, true]) {
    it.effect(`of ${sessions ? "an executor each" : "one executor"} have counts and a history of their own`, () =>
      run(
        counted(),
        {
          sessions,
          dedupe: false,
          rules: [
            { _tag: "MaxCalls", tool: "count", max: 1 },
            { _tag: "RequiresPrecedingTools", tool: "last", tools: ["count"] }
          ]
        },
        ({ connect }) =>
          Effect.gen(function*() {
            // clients that say the same of themselves
            const [one, other] = [yield* connect(makeClient()), yield* connect(makeClient())]
            assert.strictEqual((yield* one.call("count", {})).text, "1")
            assert.include((yield* one.call("count", {})).text, "limit of 1 call")
            assert.isTrue((yield* other.call("last", {})).isError)
            assert.strictEqual((yield* other.call("count", {})).text, "2")
            assert.isFalse((yield* other.call("last", {})).isError)
          })
      ))
  }

  it.effect("of an executor each know nothing of each other's equal calls and artifacts", () =>
    run(counted(), { sessions: true }, ({ connect }) =>
      Effect.gen(function*() {
        const [one, other] = [yield* connect(), yield* connect()]
        assert.strictEqual((yield* one.call("count", {})).text, "1")
        assert.isTrue((yield* one.call("count", {})).isError)
        assert.strictEqual((yield* other.call("count", {})).text, "2")
        const id = /artifact (art_\w+)/.exec((yield* one.call("large", {})).text)![1]!
        assert.isFalse((yield* one.call("read_artifact", { id })).isError)
        assert.isTrue((yield* other.call("read_artifact", { id })).isError)
      })))

  it.effect("of two gateways over the same executors are apart, too", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const handlers = ToolHandlers.fromRegistry(yield* registryOf(counted()))
        const gates = LocalExecutor.layerGates({ policy: { default: "allow" } }).pipe(
          Layer.provideMerge(Layer.succeed(ToolHandlers.ToolHandlers, handlers))
        )
        const executors = Layer.succeedContext(
          yield* Layer.build(ToolExecutors.layer().pipe(Layer.provide(gates)))
        )
        for (const text of ["1", "2"]) {
          const connect = yield* serve(McpGateway.layerSessions().pipe(Layer.provide(executors)))
          const client = makeClient()
          yield* connect(client)
          assert.strictEqual((yield* caller(client)("count", {})).text, text)
        }
      })),
      { limit: "1 hour" }
    ))

  it.effect("are forgotten some time after their last call", () =>
    run(
      counted(),
      { dedupe: false, rules: [{ _tag: "MaxCalls", tool: "count", max: 1 }], gateway: { idleTimeToLive: "1 minute" } },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          assert.isFalse((yield* call("count", {})).isError)
          yield* Effect.sleep("59 seconds")
          assert.isTrue((yield* call("count", {})).isError)
          yield* Effect.sleep("61 seconds")
          assert.isFalse((yield* call("count", {})).isError)
        })
    ))

  it.effect("are remembered while a call of theirs runs, however long", () => {
    const { handler } = traced()
    return run(
      { ...counted(), slow: handler("s", 600_000) },
      {
        dedupe: false,
        executionTimeout: "1 hour",
        rules: [{ _tag: "MaxCalls", tool: "count", max: 1 }],
        gateway: { idleTimeToLive: "1 minute" }
      },
      ({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect()
          yield* call("count", {})
          assert.strictEqual((yield* call("slow", {})).text, "s")
          assert.isTrue((yield* call("count", {})).isError)
        })
    )
  })
})

describe("a client without a session", () => {
  it.effect("is served as one that has one", () =>
    Effect.gen(function*() {
      const handlers = ToolHandlers.fromRegistry(yield* registryOf({ echo }))
      const client = yield* McpTest.makeClient(Layer.effectDiscard(Layer.build(registrations(handlers))), {
        protocols: [McpProtocol.v2026_07_28]
      })
      const { content, isError } = yield* client.callTool({ name: "echo", arguments: {} })
      assert.isUndefined(isError)
      assert.lengthOf(content, 1)
    }).pipe(Effect.scoped))
})

describe("a guarded toolkit behind a server", () => {
  it.effect("shows a large object as its preview, to a client that knows the tool", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const Page = Schema.Struct({ text: Schema.String })
        const page = Tool.make("page", { parameters: Schema.Struct({ size: Schema.Finite }), success: Page })
          .annotate(Tool.Readonly, true)
        const kit = Toolkit.make(page)
        const context = yield* Layer.build(
          LocalExecutor.layer(kit).pipe(
            Layer.provide(kit.toLayer({ page: ({ size }) => Effect.succeed({ text: "x".repeat(size) }) }))
          )
        )
        const executor = Context.get(context, ToolExecutor.ToolExecutor)
        const process = yield* executor.process()
        const connect = yield* serve(McpGateway.layerToolkit(yield* process.guard(kit)))
        const client = makeClient()
        yield* connect(client)
        yield* Effect.promise(() => client.listTools())
        const call = caller(client)
        assert.deepStrictEqual((yield* call("page", { size: 3 })).structuredContent, { text: "xxx" })
        const { refused, structuredContent, text } = yield* call("page", { size: 50_000 })
        assert.deepStrictEqual([refused, structuredContent], [undefined, undefined])
        assert.isAtMost(text.length, 10_000)
        assert.include(text, "kept as artifact")
      })),
      { limit: "1 hour" }
    ))
})

describe("an answer", () => {
  it("of a large output has no value beside its preview", () => {
    const result = McpResult.fromEnded({
      text: "cut",
      content: [{ type: "text", text: "cut" }],
      outcome: {
        _tag: "Succeeded",
        callId: "1",
        tool: "t",
        index: 0,
        attempt: 1,
        queuedAt: 0,
        commits: 0,
        requestsContinuation: false,
        hasContinueRule: false,
        output: { _tag: "Truncated", value: { a: "x" }, originalChars: 9, modelText: "cut" }
      }
    })
    assert.deepStrictEqual(result, new McpSchema.CallToolResult({ content: [{ type: "text", text: "cut" }] }))
  })
})
