/** Conditions of clauses against arguments in odd shapes: what cannot be decided counts as the stricter side. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { LocalExecutor, type Policy, ToolCall, ToolExecutor } from "../../src/index.ts"

const Env = Schema.Struct({ env: Schema.Trim })
const kit = Toolkit.make(
  Tool.dynamic("any", { parameters: { type: "object" }, success: Schema.Unknown }),
  Tool.make("deploy", { parameters: Env, success: Schema.String })
)

const run = (policy: Policy.Policy, tool: string, args: unknown) =>
  Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor.ToolExecutor).process()
    return (yield* process.executeWave([ToolCall.make("1", tool, args)])).outcomes[0]!._tag
  }).pipe(
    Effect.scoped,
    Effect.provide(
      LocalExecutor.layer(kit, { policy }).pipe(
        Layer.provide(kit.toLayer({ any: () => Effect.succeed("ran"), deploy: ({ env }) => Effect.succeed(env) }))
      )
    )
  )

const denying = (when: Record<string, unknown>): Policy.Policy => ({
  default: "allow",
  deny: [{ tool: "any", when: when as never }]
})

describe("a condition", () => {
  for (
    const [name, when, args] of [
      ["within a list", { "items.name": { like: "*.exe" } }, { items: [{ name: "virus.exe" }] }],
      ["within a text", { "card.country": { in: ["RU"] } }, { card: "{\"country\":\"RU\"}" }],
      ["within a list in a list", { "a.b.c": "x" }, { a: [[{ b: { c: "x" } }]] }],
      ["on being given, within a list", { "items.force": { exists: true } }, { items: [{ force: true }] }],
      ["on not being given, within a list", { "items.safe": { exists: false } }, { items: [{ safe: true }] }]
    ] as const
  ) {
    it.effect(`${name} denies`, () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* run(denying(when), "any", args), "Denied")
      }))
  }

  it.effect("on what an object does not have, does not deny", () =>
    Effect.gen(function*() {
      for (const args of [{}, { card: null }, { card: {} }, { card: { country: null } }]) {
        assert.strictEqual(yield* run(denying({ "card.country": { in: ["RU"] } }), "any", args), "Succeeded")
      }
      const second = denying({ "items.1.name": "x" })
      assert.strictEqual(yield* run(second, "any", { items: [{ name: "x" }] }), "Succeeded")
      assert.strictEqual(yield* run(second, "any", { items: [{}, { name: "x" }] }), "Denied")
    }))

  it.effect("on an argument that the tool decodes to another one counts for both", () =>
    Effect.gen(function*() {
      const deny: Policy.Policy = { default: "allow", deny: [{ tool: "deploy", when: { env: "production" } }] }
      assert.strictEqual(yield* run(deny, "deploy", { env: "production" }), "Denied")
      assert.strictEqual(yield* run(deny, "deploy", { env: " production " }), "Denied")
      assert.strictEqual(yield* run(deny, "deploy", { env: " test " }), "Succeeded")
      const allow: Policy.Policy = { default: "deny", allow: [{ tool: "deploy", when: { env: { ne: "production" } } }] }
      assert.strictEqual(yield* run(allow, "deploy", { env: "test" }), "Succeeded")
      assert.strictEqual(yield* run(allow, "deploy", { env: " production" }), "Denied")
    }))
})
