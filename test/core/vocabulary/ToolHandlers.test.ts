import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { type ConfigurationError, ToolAnnotations, ToolHandlers } from "../../../src/index.ts"
import * as Adapter from "../../../src/internal/toolkitAdapter.ts"

const build = <E, R>(layer: Layer.Layer<ToolHandlers.ToolHandlers, E, R>) =>
  Effect.map(Effect.scoped(Layer.build(layer)), (context) => Context.get(context, ToolHandlers.ToolHandlers).current())

const problems = (error: ConfigurationError.ConfigurationError) =>
  error.problems.map((it) => `${it.path}: ${it.problem}`)

describe("ToolHandlers", () => {
  it.effect("lists every problem at once", () =>
    Effect.gen(function*() {
      const one = Toolkit.make(
        Tool.make("twice"),
        Tool.make("capped").annotate(ToolAnnotations.MaxConcurrent, 0),
        Tool.dynamic("schema", { parameters: { type: "no such type" } }),
        Tool.make("beats", { parameters: Schema.Struct({ request_heartbeat: Schema.Boolean }) }),
        Tool.make("retries").annotate(ToolAnnotations.Retry, Schedule.recurs(1)),
        Tool.make("times").annotate(ToolAnnotations.Timeout, 0),
        Tool.make("hides", { parameters: Schema.Struct({ a: Schema.String }) }).annotate(ToolAnnotations.Redact, ["b"])
      )
      const two = Toolkit.make(Tool.make("twice"))
      const handlers = Layer.merge(
        one.toLayer({
          twice: () => Effect.void,
          capped: () => Effect.void,
          schema: () => Effect.succeed(1),
          beats: () => Effect.void,
          retries: () => Effect.void,
          times: () => Effect.void,
          hides: () => Effect.void
        } as never),
        two.toLayer({ twice: () => Effect.void })
      )
      const toolkits: ReadonlyArray<Toolkit.Any> = [one, two]
      const error = yield* Effect.flip(build(
        ToolHandlers.layer(toolkits, { tools: { nope: {}, constructor: {} as ToolHandlers.Settings } }).pipe(
          Layer.provide(handlers)
        ) as Layer.Layer<ToolHandlers.ToolHandlers, ConfigurationError.ConfigurationError>
      ))
      assert.strictEqual(error.subject, "ToolHandlers")
      const found = problems(error)
      const expected = [
        /^tools\.twice: two toolkits/,
        /^tools\.capped: maxConcurrent is 0/,
        /^tools\.schema: its JSON Schema does not compile/,
        /^tools\.beats: it declares a parameter request_heartbeat/,
        /^tools\.retries: automatic retries/,
        /^tools\.times: timeout is 0/,
        /^tools\.hides: redact has the path "b"/,
        /^tools\.nope: settings/,
        /^tools\.constructor: settings/
      ]
      for (const pattern of expected) {
        assert.isTrue(found.some((it) => pattern.test(it)), `${pattern} in ${found.join("\n")}`)
      }
      assert.strictEqual(found.length, expected.length)
      for (const { path } of error.problems) {
        assert.include(error.message, path)
      }
    }))

  it.effect("knows a tool's secrets from its annotation, its schemas and its host", () =>
    Effect.gen(function*() {
      const kit = Toolkit.make(
        Tool.make("pay", {
          parameters: Schema.Struct({ card: Schema.String, pin: Schema.RedactedFromValue(Schema.String) }),
          success: Schema.Struct({ receipt: Schema.String })
        }).annotate(ToolAnnotations.Redact, ["card"]),
        Tool.dynamic("remote", { parameters: { type: "object" } })
      )
      const handlers = kit.toLayer({ pay: () => Effect.die("unused"), remote: () => Effect.die("unused") })
      const registry = yield* build(
        ToolHandlers.layer(kit, { tools: { remote: { redact: ["seed"] } } }).pipe(Layer.provide(handlers))
      )
      const [pay, remote] = [registry.get("pay")!.redactor, registry.get("remote")!.redactor]
      assert.deepStrictEqual(pay.arguments({ card: "4111", pin: "7777", password: "x" }).value, {
        card: "[redacted]",
        pin: "[redacted]",
        password: "[redacted]"
      })
      assert.deepStrictEqual(pay.declared?.output({ receipt: "1", card: "4111" }).value, {
        receipt: "1",
        card: "[redacted]"
      })
      assert.deepStrictEqual(remote.arguments({ seed: "7" }), { value: { seed: "[redacted]" }, secrets: ["7"] })
    }))

  const kit = Toolkit.make(
    Tool.make("read").annotate(Tool.Readonly, true),
    Tool.make("plain"),
    Tool.make("promoted").annotate(ToolAnnotations.Promoted, true),
    Tool.make("recursive").annotate(Tool.Readonly, true).annotate(ToolAnnotations.Recursive, true),
    Tool.make("promotedRead").annotate(Tool.Readonly, true).annotate(ToolAnnotations.Promoted, true)
  )
  const handlers = kit.toLayer({
    read: () => Effect.void,
    plain: () => Effect.void,
    promoted: () => Effect.void,
    recursive: () => Effect.void,
    promotedRead: () => Effect.void
  })

  it.effect("takes no unknown tool for safe", () =>
    Effect.gen(function*() {
      const classes = (tools?: ToolHandlers.Options["tools"]) =>
        Effect.map(build(ToolHandlers.layer(kit, { tools }).pipe(Layer.provide(handlers))), (registry) =>
          Object.fromEntries(Array.from(registry.values(), (it) => [it.name, it.class])))
      assert.deepStrictEqual(yield* classes(), {
        read: "ReadOnly",
        plain: "SerialMut",
        promoted: "ConcurrentMut",
        recursive: "ConcurrentMut",
        promotedRead: "ReadOnly"
      })
      assert.deepInclude(yield* classes({ plain: { promoted: true }, promoted: { promoted: false } }), {
        plain: "ConcurrentMut",
        promoted: "SerialMut"
      })
    }), { tags: ["C2"] })

  it.effect("shows the effect/ai shape of a handler's entry that the direct way depends on", () =>
    Effect.gen(function*() {
      const context = yield* Effect.scoped(Layer.build(handlers))
      const tool = kit.tools.read
      const entry = context.mapUnsafe.get(tool.id) as Record<string, unknown>
      assert.sameMembers(Object.keys(entry), ["name", "handler", "context"])
      assert.strictEqual(entry["name"], "read")
      assert.isFunction(entry["handler"])
      assert.isDefined(Adapter.fromContext(context as Context.Context<never>, tool))
    }))

  describe("by way of Toolkit.handle", () => {
    class Problem extends Schema.TaggedError<Problem>("test/Problem")("Problem", { why: Schema.String }) {}
    const Typed = Tool.make("typed", {
      parameters: Schema.Struct({ how: Schema.String, on: Schema.DateFromString }),
      success: Schema.Struct({ on: Schema.DateFromString }),
      failure: Problem
    })
    const Raw = Tool.dynamic("raw", {
      parameters: { type: "object", properties: { how: { type: "string" } } },
      success: Schema.Unknown,
      failure: Schema.Unknown
    })
    const both = Toolkit.make(Typed, Raw)
    const act = (how: string, good: unknown, bad: unknown): Effect.Effect<unknown, unknown> =>
      how === "fail"
        ? Effect.fail(bad)
        : how === "die"
        ? Effect.die("boom")
        : how === "interrupt"
        ? Effect.interrupt
        : Effect.succeed(good)
    const layer = both.toLayer({
      typed: ({ how, on }: { readonly how: string; readonly on: Date }) => act(how, { on }, new Problem({ why: "no" })),
      raw: (params: unknown) => act((params as { how: string }).how, params, { why: "no" })
    } as never) as Layer.Layer<Tool.HandlersFor<typeof both.tools>>

    for (const name of ["typed", "raw"] as const) {
      for (const how of ["succeed", "fail", "die", "interrupt"]) {
        it.effect(`a ${name} handler that is to ${how} ends the same`, () =>
          Effect.gen(function*() {
            const context = yield* Effect.scoped(Layer.build(layer)) as Effect.Effect<Context.Context<never>>
            const tool = both.tools[name] as Tool.Any
            const withHandler = yield* Effect.provideContext(
              both as unknown as Toolkit.Toolkit<Record<string, Tool.Any>>,
              context as Context.Context<Tool.Handler<string>>
            )
            const direct = Adapter.fromContext(context, tool)!
            const through = Adapter.throughHandle(withHandler, tool, context)
            const handlerContext = { toolCallId: "1", preliminary: () => Effect.void }
            const params = name === "typed" ? { how, on: new Date(5) } : { how }
            const perform = (entry: Adapter.Entry) =>
              Effect.exit(Effect.provideContext(entry.handler(params, handlerContext), entry.context))
            const [expected, got] = [yield* perform(direct), yield* perform(through)]
            assert.strictEqual(got._tag, expected._tag)
            if (Exit.isSuccess(expected) && Exit.isSuccess(got)) assert.deepStrictEqual(got.value, expected.value)
            if (Exit.isFailure(expected) && Exit.isFailure(got)) {
              assert.deepStrictEqual(
                got.cause.reasons.map((it) => it._tag),
                expected.cause.reasons.map((it) => it._tag)
              )
              // an interruption names its fiber, which is another one
              const plain = (cause: unknown) => String(cause).replaceAll(/\d+/g, "#")
              assert.deepStrictEqual(plain(got.cause), plain(expected.cause))
            }
          }))
      }
    }
  })
})
