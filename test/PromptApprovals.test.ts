/**
 * Calls that were approved in the prompt, which `effect/ai` executes before it asks
 * the model: they go through the gates like any other.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ExecutedModel, LocalExecutor, type Policy, ToolExecutor } from "../src/index.ts"
import * as VirtualTime from "../src/testing/VirtualTime.ts"
import { type Call, scriptedModel } from "./support/scriptedModel.ts"

const kit = Toolkit.make(
  Tool.make("send", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String, needsApproval: true }),
  Tool.make("read", { success: Schema.String }).annotate(Tool.Readonly, true)
)

/** A conversation in which a person was asked about calls, and has answered. */
const answered = (answers: ReadonlyArray<readonly [id: string, approved: boolean, params?: unknown]>) =>
  Prompt.fromMessages([
    Prompt.makeMessage("user", { content: [Prompt.textPart({ text: "send it" })] }),
    Prompt.makeMessage("assistant", {
      content: answers.flatMap(([id, , params = { n: 1 }]) => [
        Prompt.makePart("tool-call", { id, name: "send", params, providerExecuted: false }),
        Prompt.makePart("tool-approval-request", { approvalId: `ask ${id}`, toolCallId: id })
      ])
    }),
    Prompt.makeMessage("tool", {
      content: answers.map(([id, approved]) =>
        Prompt.makePart("tool-approval-response", { approvalId: `ask ${id}`, approved, reason: "not today" })
      )
    })
  ])

const loops = {
  generateText: (prompt: Prompt.Prompt, toolkit: Kit) =>
    Effect.map(LanguageModel.generateText({ prompt, toolkit }), (it) => it.content as ReadonlyArray<Response.AnyPart>),
  streamText: (prompt: Prompt.Prompt, toolkit: Kit) =>
    Effect.map(
      Stream.runCollect(LanguageModel.streamText({ prompt, toolkit })),
      (it) => it as ReadonlyArray<Response.AnyPart>
    )
}

type Kit = Toolkit.WithHandler<typeof kit.tools> | Effect.Effect<Toolkit.WithHandler<typeof kit.tools>>

const beginProcess = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  return yield* executor.process()
})

type Env = Scope.Scope | LanguageModel.LanguageModel | ToolExecutor.ToolExecutor | Tool.HandlersFor<typeof kit.tools>

const run = <A, E>(
  options: {
    readonly policy?: Policy.Policy
    readonly executed: boolean
    readonly turns?: ReadonlyArray<ReadonlyArray<Call>>
  },
  program: (toolkit: Kit, sent: ReadonlyArray<number>) => Effect.Effect<A, E, Env>
) => {
  const sent: Array<number> = []
  const handlers = kit.toLayer({
    send: ({ n }) => Effect.sync(() => `sent ${sent.push(n)}`),
    read: () => Effect.succeed("read")
  })
  const executor = LocalExecutor.layer(kit, {
    policy: options.policy ?? { default: "allow", allow: ["send"], skipApproval: ["send"] },
    dedupe: false,
    rules: [{ _tag: "MaxCalls", tool: "send", max: 2 }]
  }).pipe(Layer.provide(handlers))
  const { layer, seen } = scriptedModel(options.turns ?? [])
  const model = options.executed ? Layer.fresh(ExecutedModel.layer).pipe(Layer.provide(layer)) : layer
  const toolkit: Effect.Effect<Kit, unknown, Env> = options.executed
    ? kit
    : Effect.flatMap(beginProcess, (process) => process.guard(kit))
  return VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const result = yield* program(yield* toolkit, sent)
      return { result, sent, seen }
    })).pipe(Effect.provide(model.pipe(Layer.provideMerge(Layer.merge(executor, handlers))))),
    { limit: "1 hour" }
  )
}

const results = (parts: ReadonlyArray<Response.AnyPart>) =>
  parts.flatMap((part) =>
    part.type === "tool-result" ? [[part.id, part.isFailure, JSON.stringify(part.encodedResult)] as const] : []
  )

describe("a call that was approved in the prompt", () => {
  for (const executed of [false, true]) {
    for (const name of ["generateText", "streamText"] as const) {
      describe(`of ${name} with ${executed ? "the executor behind the model" : "a guarded toolkit"}`, () => {
        const loop = loops[name]

        it.effect("runs once, and the model is told", () =>
          Effect.gen(function*() {
            const { seen, sent } = yield* run(
              { executed },
              (toolkit) => loop(answered([["1", true, { n: 7 }]]), toolkit)
            )
            assert.deepStrictEqual(sent, [7])
            assert.include(JSON.stringify(seen[0]), "sent 1")
          }))

        it.effect("does not run where the policy denies it, or asks and nobody is there", () =>
          Effect.gen(function*() {
            for (const policy of [{ default: "allow", deny: ["send"] }, { default: "allow", ask: ["send"] }] as const) {
              const { seen, sent } = yield* run(
                { executed, policy },
                (toolkit) => loop(answered([["1", true]]), toolkit)
              )
              assert.deepStrictEqual(sent, [])
              assert.include(JSON.stringify(seen[0]), "execution-denied")
            }
          }))

        it.effect("counts like any other, and with those of the response", () =>
          Effect.gen(function*() {
            const { result, sent } = yield* run(
              { executed, turns: [[["9", "send", { n: 9 }], ["10", "send", { n: 10 }]]] },
              (toolkit) => loop(answered([["1", true, { n: 1 }]]), toolkit)
            )
            assert.deepStrictEqual(sent, [1, 9])
            const own = results(result).filter(([id]) => id !== "1")
            assert.deepStrictEqual(own.map(([id, isFailure]) => [id, isFailure]), [["9", false], ["10", true]])
          }))

        it.effect("is checked against the schema", () =>
          Effect.gen(function*() {
            const { seen, sent } = yield* run({ executed }, (toolkit) =>
              loop(answered([["1", true, { n: "x" }]]), toolkit))
            assert.deepStrictEqual(sent, [])
            assert.include(JSON.stringify(seen[0]), "Correct the arguments")
          }))

        it.effect("does not run where the answer was no; its sibling does", () =>
          Effect.gen(function*() {
            const { seen, sent } = yield* run(
              { executed },
              (toolkit) => loop(answered([["1", false, { n: 1 }], ["2", true, { n: 2 }]]), toolkit)
            )
            assert.deepStrictEqual(sent, [2])
            assert.include(JSON.stringify(seen[0]), "not today")
          }))

        it.effect("is not asked about by effect/ai, where the executor asks", () =>
          Effect.gen(function*() {
            const { result, sent } = yield* run(
              { executed, turns: [[["9", "send", { n: 9 }]]] },
              (toolkit) => loop(Prompt.make("go"), toolkit)
            )
            assert.isFalse(result.some((it) => it.type === "tool-approval-request"))
            assert.lengthOf(results(result), 1)
            // its own `needsApproval` means ask, and nobody is there, unless the policy names it
            assert.deepStrictEqual(sent, results(result)[0]![1] ? [] : [9])
          }))

        it.effect("does not run again in the next request of a chat", () =>
          Effect.gen(function*() {
            const { sent } = yield* run({ executed }, (toolkit) =>
              Effect.gen(function*() {
                const chat = yield* Chat.fromPrompt(answered([["1", true, { n: 7 }]]))
                for (const prompt of ["go on", "and?"]) {
                  if (name === "generateText") yield* chat.generateText({ prompt, toolkit })
                  else yield* Stream.runDrain(chat.streamText({ prompt, toolkit }))
                }
              }))
            assert.deepStrictEqual(sent, [7])
          }))
      })
    }
  }
})
