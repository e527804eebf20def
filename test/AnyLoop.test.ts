/**
 * What holds for the calls of a model, whichever loop makes them: `LanguageModel`
 * and `Chat` with a guarded toolkit, the same with a model that the executor is
 * behind, and MCP clients of the gateway.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as McpServer from "effect/ai/McpServer"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ExecutedModel, LocalExecutor, ToolExecutor } from "../src/index.ts"
import * as McpGateway from "../src/mcp/McpGateway.ts"
import * as VirtualTime from "../src/testing/VirtualTime.ts"
import { caller } from "./support/gateway.ts"
import { makeClient, serve } from "./support/mcpServer.ts"
import { type Call, scriptedModel } from "./support/scriptedModel.ts"

const N = Schema.Struct({ n: Schema.Finite })
const read = <Name extends string>(name: Name) =>
  Tool.make(name, { parameters: N, success: Schema.String }).annotate(Tool.Readonly, true)

const kit = Toolkit.make(
  read("read"),
  read("denied"),
  read("failing"),
  read("picky"),
  read("dying"),
  read("hanging"),
  read("large"),
  read("look"),
  Tool.make("put", { parameters: N, success: Schema.String }),
  Tool.make("toolong", { parameters: N, failure: Schema.Struct({ text: Schema.String }) }).annotate(
    Tool.Readonly,
    true
  ),
  Tool.make("typed", { parameters: N, success: Schema.String, failure: Schema.Struct({ code: Schema.Finite }) })
    .annotate(Tool.Readonly, true)
)

/** What the tools did, and the board that they write on. */
interface World {
  readonly ran: Array<string>
  board: string
}

const handlersOf = (world: World) => {
  const ran = (name: string, n: number) => void world.ran.push(`${name}${n}`)
  return kit.toLayer({
    read: ({ n }) => Effect.delay(Effect.sync(() => (ran("read", n), `read ${n}`)), "1 second"),
    denied: () => Effect.sync(() => (ran("denied", 0), "never")),
    failing: () => Effect.die(new Error("secret of failing")),
    picky: ({ n }) => Effect.succeed(`picked ${n}`),
    dying: () =>
      Effect.sync(() => {
        throw new Error("secret of dying")
      }),
    hanging: () => Effect.never,
    large: () => Effect.succeed("x".repeat(50_000)),
    look: () => Effect.delay(Effect.sync(() => `the board says ${world.board}`), "1 second"),
    put: ({ n }) =>
      Effect.delay(
        Effect.sync(() => {
          world.board = String(n)
          return "written"
        }),
        "1 second"
      ),
    toolong: () => Effect.fail({ text: "y".repeat(50_000) }),
    typed: ({ n }) => Effect.fail({ code: n })
  })
}

/** What a model is told about a call. */
interface Told {
  readonly id: string
  readonly isFailure: boolean
  readonly text: string
}

type Request = (calls: ReadonlyArray<Call>) => Effect.Effect<ReadonlyArray<Told>, unknown, Scope.Scope>

type Env = Scope.Scope | ToolExecutor.ToolExecutor | Tool.HandlersFor<typeof kit.tools>

interface Way {
  readonly name: string
  /** Begins with an executor; what it gives makes one request, or has one session. */
  readonly open: Effect.Effect<Request, unknown, Env>
  /** What becomes of a name that is no tool's. */
  readonly unknownName: "is answered" | "fails the request"
}

const told = (parts: ReadonlyArray<Response.AnyPart>): ReadonlyArray<Told> =>
  parts.flatMap((part) => {
    if (part.type !== "tool-result" || part.preliminary === true) return []
    const { encodedResult, id, isFailure, modelOutput } = part
    const text = modelOutput === undefined
      ? typeof encodedResult === "string" ? encodedResult : JSON.stringify(encodedResult)
      : Prompt.toolModelOutputToText(modelOutput)
    return [{ id, isFailure, text }]
  })

const beginProcess = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  return yield* executor.process()
})

type Kit = Toolkit.WithHandler<typeof kit.tools> | Effect.Effect<Toolkit.WithHandler<typeof kit.tools>>

/** The three loops of `effect/ai` over a toolkit: each gives the parts of one response. */
const loops = {
  generateText: (toolkit: Kit) =>
    Effect.map(
      LanguageModel.generateText({ prompt: "go", toolkit }),
      (it) => it.content as ReadonlyArray<Response.AnyPart>
    ),
  streamText: (toolkit: Kit) =>
    Effect.map(
      Stream.runCollect(LanguageModel.streamText({ prompt: "go", toolkit })),
      (parts) => parts as ReadonlyArray<Response.AnyPart>
    ),
  Chat: (toolkit: Kit) =>
    Effect.flatMap(
      Chat.empty,
      (chat) =>
        Effect.map(chat.generateText({ prompt: "go", toolkit }), (it) => it.content as ReadonlyArray<Response.AnyPart>)
    ),
  "Chat, streaming": (toolkit: Kit) =>
    Effect.flatMap(Chat.empty, (chat) =>
      Effect.map(
        Stream.runCollect(chat.streamText({ prompt: "go", toolkit })),
        (parts) => parts as ReadonlyArray<Response.AnyPart>
      ))
}

const guarded = (name: keyof typeof loops): Way => ({
  name: `${name} with a guarded toolkit`,
  unknownName: "fails the request",
  open: Effect.map(Effect.context<Env>(), (context) => (calls) =>
    Effect.gen(function*() {
      const process = yield* beginProcess
      return told(yield* loops[name](yield* process.guard(kit)))
    }).pipe(Effect.provide(scriptedModel([calls]).layer), Effect.provideContext(context)))
})

const executed = (name: keyof typeof loops): Way => ({
  name: `${name} with the executor behind the model`,
  unknownName: "is answered",
  open: Effect.map(
    Effect.context<Env>(),
    (context) => (calls) =>
      Effect.flatMap(kit, (toolkit) => Effect.map(loops[name](toolkit), told)).pipe(
        Effect.provide(Layer.fresh(ExecutedModel.layer).pipe(Layer.provide(scriptedModel([calls]).layer))),
        Effect.provideContext(context)
      )
  )
})

const served = <E>(
  name: string,
  registrations: Effect.Effect<Layer.Layer<never, never, McpServer.McpServer>, E, Env>
): Way => ({
  name: `a client of ${name}`,
  unknownName: "is answered",
  open: Effect.gen(function*() {
    const connect = yield* serve(yield* registrations)
    return (calls) =>
      Effect.gen(function*() {
        const client = makeClient()
        yield* connect(client)
        return yield* Effect.forEach(calls, ([id, name, params]) =>
          Effect.map(caller(client)(name, params as Record<string, unknown>), (it): Told => ({
            id,
            isFailure: it.isError,
            text: it.refused ?? it.text
          })), { concurrency: "unbounded" })
      })
  })
})

const ways: ReadonlyArray<Way> = [
  ...(["generateText", "streamText", "Chat", "Chat, streaming"] as const).flatMap((it) => [guarded(it), executed(it)]),
  served(
    "McpGateway.layer",
    Effect.map(
      ToolExecutor.ToolExecutor,
      (executor) =>
        Layer.orDie(McpGateway.layer()).pipe(Layer.provide(Layer.succeed(ToolExecutor.ToolExecutor, executor)))
    )
  ),
  served(
    "McpGateway.layerToolkit",
    Effect.flatMap(beginProcess, (process) => Effect.map(process.guard(kit), McpGateway.layerToolkit))
  )
]

/** Runs a program with a way to make requests, in virtual time. */
const run = <A, E>(way: Way, program: (request: Request, world: World) => Effect.Effect<A, E, Scope.Scope>) => {
  const world: World = { ran: [], board: "nothing" }
  const handlers = handlersOf(world)
  const executor = LocalExecutor.layer(kit, {
    policy: { default: "allow", deny: ["denied"] },
    executionTimeout: "5 seconds",
    rules: [{ _tag: "MaxCalls", tool: "picky", max: 1 }]
  }).pipe(Layer.provide(handlers))
  return VirtualTime.run(
    Effect.scoped(
      Effect.flatMap(way.open, (request) => program(request, world)).pipe(
        Effect.provide(Layer.merge(executor, handlers))
      )
    ),
    { limit: "1 hour" }
  )
}

const sorted = (results: ReadonlyArray<Told>): ReadonlyArray<Told> =>
  results.toSorted((a, b) => Number(a.id) - Number(b.id))

describe("whichever loop makes the calls", () => {
  for (const way of ways) {
    describe(way.name, () => {
      it.effect("a call that is refused, fails, hangs or is malformed leaves its siblings and the request alone", () =>
        run(way, (request, world) =>
          Effect.gen(function*() {
            const results = sorted(
              yield* request([
                ["1", "read", { n: 1 }],
                ["2", "denied", { n: 2 }],
                ["3", "typed", { n: 3 }],
                ["4", "failing", { n: 4 }],
                ["5", "dying", { n: 5 }],
                ["6", "hanging", { n: 6 }],
                ["7", "read", { n: "seven" }],
                ["8", "picky", { n: 8 }],
                ["9", "picky", { n: 9 }],
                ["10", "read", {}],
                ["11", "read", { n: 11 }]
              ])
            )
            assert.deepStrictEqual(results.map((it) => it.id), Array.from({ length: 11 }, (_, n) => String(n + 1)))
            assert.deepStrictEqual(results.filter((it) => !it.isFailure).map((it) => it.text), [
              "read 1",
              "picked 8",
              "read 11"
            ])
            assert.include(results[2]!.text, "\"code\":3")
            assert.include(results[5]!.text, "5 s")
            assert.include(results[6]!.text, "Correct the arguments")
            assert.include(results[8]!.text, "has reached its limit")
            assert.notInclude(JSON.stringify(results), "secret")
            assert.deepStrictEqual(world.ran, ["read1", "read11"])
            assert.strictEqual(yield* VirtualTime.now, 5_000)
          })))

      it.effect(`a name that is no tool's ${way.unknownName}`, () =>
        run(way, (request, world) =>
          Effect.gen(function*() {
            const exit = yield* Effect.exit(
              request([["1", "read", { n: 1 }], ["2", "raed", { n: 2 }], ["3", "read", { n: 3 }]])
            )
            if (way.unknownName === "fails the request") {
              // effect's own check, before any handler; a guarded toolkit never sees the call
              assert.isTrue(Exit.isFailure(exit))
              assert.include(JSON.stringify(exit), "InvalidOutputError")
              assert.deepStrictEqual(world.ran, [])
              return
            }
            const results = sorted(Exit.isSuccess(exit) ? exit.value : [])
            assert.deepStrictEqual(results.map((it) => it.isFailure), [false, true, false])
            assert.include(results[1]!.text, "raed")
          })))

      it.effect("a read behind a write sees it, and the write waits for the read before it", () =>
        run(way, (request) =>
          Effect.gen(function*() {
            const results = sorted(
              yield* request([
                ["1", "look", { n: 0 }],
                ["2", "put", { n: 1 }],
                ["3", "look", { n: 0 }],
                ["4", "read", { n: 4 }],
                ["5", "put", { n: 2 }],
                ["6", "look", { n: 0 }]
              ])
            )
            assert.deepStrictEqual(results.map((it) => it.text), [
              "the board says nothing",
              "written",
              "the board says 1",
              "read 4",
              "written",
              "the board says 2"
            ])
            assert.strictEqual(yield* VirtualTime.now, 5_000)
          })))

      it.effect("requests at one time get their own results, though their calls have the same ids", () =>
        run(way, (request) =>
          Effect.gen(function*() {
            const of = (n: number): ReadonlyArray<Call> => [
              ["1", "read", { n }],
              ["2", "typed", { n }],
              ["3", "read", { n: n + 1 }]
            ]
            const requests = [10, 20, 30, 40]
            const results = yield* Effect.forEach(requests, (n) => request(of(n)), { concurrency: "unbounded" })
            for (const [index, n] of requests.entries()) {
              const [first, second, third] = sorted(results[index]!)
              assert.lengthOf(results[index]!, 3)
              assert.deepStrictEqual([first?.text, third?.text], [`read ${n}`, `read ${n + 1}`])
              assert.include(second?.text, `"code":${n}`)
            }
            assert.strictEqual(yield* VirtualTime.now, 1_000)
          })))

      it.effect("what is large is short for the model", () =>
        run(way, (request) =>
          Effect.gen(function*() {
            const results = sorted(
              yield* request([["1", "large", { n: 1 }], ["2", "read", { n: 2 }], ["3", "toolong", { n: 3 }]])
            )
            assert.deepStrictEqual(results.map((it) => it.isFailure), [false, false, true])
            // what McpServer makes of a failure stands in quotes
            assert.isAtMost(results[2]!.text.length, 10_020)
            assert.include(results[2]!.text, "yyy")
            assert.isAtMost(results[0]!.text.length, 10_000)
            assert.include(results[0]!.text, "50000 characters in all")
            assert.strictEqual(results[1]!.text, "read 2")
          })))
    })
  }
})
