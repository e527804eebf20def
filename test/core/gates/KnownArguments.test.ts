/** What a policy says that can mean nothing, and who hears of it. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as KnownArguments from "../../../src/core/gates/KnownArguments.ts"
import type * as Policy from "../../../src/core/gates/Policy.ts"
import * as Reviewer from "../../../src/review/Reviewer.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { open, type Options } from "../../support/Harness.ts"

const of = (properties: object) => ({ type: "object", properties, additionalProperties: true })

const refund = { name: "refund", jsonSchema: of({ amount: { type: "number" }, card: of({ country: {} }) }) }
const loose = { name: "note", jsonSchema: { type: "object", properties: {} } }

const paths = (when: object, tool = "refund") =>
  KnownArguments.problems([{ name: "", policy: { deny: [{ tool, when: when as never }] } }], [refund, loose])
    .map((it) => it.path)

describe("conditions on arguments", () => {
  it("are known to mean nothing where their tools have no such argument", () => {
    assert.deepStrictEqual(paths({ amount: { gt: 1 }, "card.country": "RU" }), [])
    assert.deepStrictEqual(paths({ amuont: { gt: 1 }, "card.contry": "RU" }), [
      "deny[0].when.amuont",
      "deny[0].when.card.contry"
    ])
    assert.deepStrictEqual(paths({ amuont: 1 }, "ref*"), ["deny[0].when.amuont"])
    // one of the tools may have it, nobody knows the tool, or what is in the argument
    assert.deepStrictEqual(paths({ amuont: 1 }, "*"), [])
    assert.deepStrictEqual(paths({ amuont: 1 }, "other"), [])
    assert.deepStrictEqual(paths({ "amount.in": 1 }), [])
  })

  it("say what would be right", () => {
    const policy: Policy.Policy = { deny: [{ tool: "refund", when: { amuont: { gt: 1 } } }] }
    assert.deepStrictEqual(KnownArguments.problems([{ name: "organisation", policy }], [refund]), [{
      path: "organisation.deny[0].when.amuont",
      problem: "the tool refund takes no such argument",
      expected: "one of amount, card"
    }])
  })
})

describe("an executor", () => {
  const warnings = (options: Options) =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const logger = Logger.make<unknown, void>(({ message }) => void lines.push(String(message)))
      const pay = Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), success: Schema.Void })
      yield* VirtualTime.run(
        Effect.scoped(open({ pay: { tool: pay, handler: () => Effect.void } }, options)).pipe(
          Effect.provide(Logger.layer([logger]))
        ),
        { limit: "1 minute" }
      )
      return lines
    })

  it.live("says at its start what of its policy means nothing, and nothing else", () =>
    Effect.gen(function*() {
      const deny: Policy.Policy = { default: "allow", deny: [{ tool: "pay", when: { amuont: { gt: 1 } } }] }
      assert.deepStrictEqual(yield* warnings({ policy: deny }), [
        "The policy: the condition deny[0].when.amuont never holds: the tool pay takes no such argument, expected one of amount."
      ])
      const review: Policy.Policy = { ask: ["pay"], review: { allow: ["pay"] } }
      assert.deepStrictEqual(yield* warnings({ policy: review }), [
        "The policy: review says what a reviewer may decide, and there is no reviewer: people decide."
      ])
      const reviewer = yield* Reviewer.make(() => Effect.never)
      assert.deepStrictEqual(yield* warnings({ policy: { ask: ["pay"] }, reviewer }), [
        "The policy: there is a reviewer, and review does not say what it may decide: it is not asked."
      ])
      assert.deepStrictEqual(yield* warnings({ policy: review, reviewer }), [])
    }))
})
