/** A kind of rule that only the table knows: everything else about rules follows from its entry. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { about, AnyTool, listed, none, subject, Tools } from "../../../src/core/rules/RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../../../src/core/rules/RuleKind.ts"
import { kinds } from "../../../src/core/rules/RuleKinds.ts"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import { LocalExecutor, ToolCall, ToolExecutor } from "../../../src/index.ts"
import { tags, toolkit } from "../../support/Harness.ts"

const schema = Schema.TaggedStruct("RequiresOneOf", { tool: AnyTool, tools: Tools })

const RequiresOneOf: RuleKind<typeof schema.Type> = {
  schema,
  scope: "process",
  make: typed<Constructor>((tool: string, tools: [string]) => ({ _tag: "RequiresOneOf", tool, tools })),
  names: (rule) => [subject(rule.tool), ...listed("tools", rule.tools)],
  countsOn: none,
  says: (rule, tool) =>
    about(rule, tool, {
      forbids: ({ succeeded }) => rule.tools.some((it) => succeeded.has(it)) ? undefined : rule.tools
    }),
  problems: none,
  sentence: ({ tool, tools }) => `"${tool}" needs one of ${tools.join(", ")}.`,
  explain: ({ names, tool }) => `"${tool}" needs one of ${names.join(", ")} first.`,
  draw: ({ tool, tools }, drawing) => {
    for (const it of tools) drawing.edge(drawing.tool(it), "needs", "one of", drawing.tool(tool))
  }
}

const rules = [{ _tag: "RequiresOneOf", tool: "c", tools: ["a", "b"] }] as unknown as ReadonlyArray<never>
const names = ["a", "b", "c", "d"]

const { handlers, kit } = toolkit(Object.fromEntries(names.map((it) => [it, { handler: () => Effect.succeed(it) }])))

/** The table with one more entry. */
const inTable = Effect.acquireRelease(
  Effect.sync(() => Object.assign(kinds, { RequiresOneOf })),
  () => Effect.sync(() => Reflect.deleteProperty(kinds, "RequiresOneOf"))
)

describe("a new kind of rule", () => {
  it.effect("is enforced and explained to the model, inside a wave too", () =>
    Effect.gen(function*() {
      yield* inTable
      const layer = LocalExecutor.layer(kit, { policy: { default: "allow" }, rules }).pipe(Layer.provide(handlers))
      const executor = Layer.build(layer)
      const process = yield* Effect.flatMap(
        ToolExecutor.ToolExecutor,
        (it) => it.process()
      ).pipe(Effect.provideContext(yield* executor))
      const wave = yield* process.executeWave(
        ["c", "a", "c"].map((tool, index) => ToolCall.make(`${index}`, tool, {}))
      )
      assert.deepStrictEqual(tags(wave), ["RuleViolation", "Succeeded", "Succeeded"])
      assert.strictEqual(wave.toolMessages[0]?.text, "\"c\" needs one of a, b first.")
    }).pipe(Effect.scoped))

  it.effect("is checked, told to the model and drawn", () =>
    Effect.gen(function*() {
      yield* inTable
      const set = RuleSet.make(rules, names)
      assert.deepStrictEqual(RuleSet.problems([{ _tag: "RequiresOneOf", tool: "c", tools: ["z"] }], known), [{
        path: "rules[0].tools[0]",
        problem: "there is no tool \"z\"",
        expected: "one of a, b, c, d"
      }])
      assert.deepStrictEqual(RuleSet.describe(set), ["\"c\" needs one of a, b."])
      assert.include(RuleSet.graph(set), "t0 -->|\"one of\"| t2")
      assert.deepStrictEqual(RuleSet.allowedNext(set, RuleSet.history(set, [])), ["a", "b", "d"])
      assert.deepStrictEqual(names.map((it) => set.forTool(it).closesRun), [true, true, true, false])
      assert.isFalse(set.forTool("c").isFree)
    }).pipe(Effect.scoped))
})

const known = new Map<string, RuleSet.RuleTool>(
  names.map((it) => [it, {}])
)
