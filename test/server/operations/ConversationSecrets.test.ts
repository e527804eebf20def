/** What a tool declares to be a secret, where other users than the owner read a conversation. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { LocalExecutor, ToolAnnotations, ToolHandlers } from "../../../src/index.ts"
import * as Server from "../../../src/server/api/Server.ts"
import * as Agents from "../../../src/server/operations/Agents.ts"
import * as History from "../../../src/server/operations/History.ts"
import * as Operations from "../../../src/server/operations/Operations.ts"
import * as Access from "../../../src/server/users/Access.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"

const ada = { user: "ada", session: "s" }

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ card: Schema.String, pin: Schema.RedactedFromValue(Schema.String) }),
  success: Schema.String
}).annotate(ToolAnnotations.Redact, ["card"])

const kit = Toolkit.make(Pay)

const secrets = ["4111-1111", "zebra-77665"]

const params = { card: "4111-1111", pin: "zebra-77665" }

describe("a declared secret", () => {
  it.live("is in nothing that other users than the owner read of a conversation", () =>
    Effect.gen(function*() {
      const model = yield* ScriptedModel.make([
        { text: "hello" },
        { text: "I pay with 4111-1111 and zebra-77665.", calls: [{ name: "pay", params }] },
        { text: "Paid with 4111-1111 and zebra-77665." }
      ])
      const layer = Server.layerExecutors().pipe(
        Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
        Layer.provide(Agents.layer({ helper: { model: model.layer } })),
        Layer.provideMerge(ToolHandlers.layer(kit)),
        Layer.provide(kit.toLayer({ pay: ({ card }) => Effect.succeed(`paid with ${card}`) })),
        Layer.provide(Access.layer({ users: [] }))
      )
      yield* Effect.gen(function*() {
        const operations = yield* Operations.Operations
        const tools = yield* ToolHandlers.ToolHandlers
        const toTheEnd = Effect.fnUntraced(function*(after: string | undefined) {
          const stream = Option.getOrThrow(yield* operations.events(ada, after, true))
          return Stream.runCollect(Stream.takeUntil(stream, ({ event }) => event === "operation_end"))
        })
        yield* (yield* operations.start(ada, { agent: "helper", prompt: "hello" })).ended
        const live = yield* Effect.forkScoped(yield* toTheEnd(undefined), { startImmediately: true })
        const handle = yield* operations.start(ada, { agent: "helper", prompt: "pay it with 4111-1111", id: "x" })
        yield* handle.ended
        const own = yield* Stream.runCollect(handle.events(undefined))
        const events = [yield* Fiber.join(live), yield* yield* toTheEnd(own[0]!.id)]
        const { content } = yield* operations.history(ada)
        const redactorOf = (tool: string) => tools.current().get(tool)?.redactor
        const messages = History.toWire(content, { redactorOf, isShared: true })
        const known = History.secretsIn(content, redactorOf)
        const list = (yield* operations.list(ada)).map((it) => Operations.shared(it, known))
        const text = JSON.stringify([events, messages, list])
        assert.include(text, "Paid with [redacted] and [redacted].")
        for (const secret of secrets) assert.notInclude(text, secret)
        // the owner reads the whole answer
        assert.include(JSON.stringify(own.at(-1)), "Paid with 4111-1111 and zebra-77665.")
      }).pipe(Effect.provide(layer), Effect.scoped)
    }), { tags: ["SV26"] })
})
