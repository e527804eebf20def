/** The settings of an executor: whose word holds, and what is wrong with them. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { checked } from "../../../../src/core/engine/state/CheckedSettings.ts"
import * as ExecutorSettings from "../../../../src/core/engine/state/ExecutorSettings.ts"
import * as ToolExecutor from "../../../../src/core/engine/ToolExecutor.ts"
import { LayerConfig } from "../../../../src/index.ts"

const read = <E>(layer: Layer.Layer<never, E>) => Effect.provide(checked, layer)

const problemsOf = (settings: object) =>
  Effect.map(
    Effect.flip(read(ExecutorSettings.layer(settings))),
    ({ problems }) => Object.fromEntries(problems.map((it) => [it.path, `${it.problem}; ${it.expected}`]))
  )

describe("settings", () => {
  it.effect("are read as plain values, with defaults where nobody says anything", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* checked, {
        principal: "default",
        mode: "classes",
        executionMillis: 120_000,
        guardMillis: 10_000,
        eventBuffer: 1_024
      })
      assert.deepInclude((yield* checked).output, { maxChars: 10_000, previewDepth: 4 })
    }))

  it.effect("hold field by field over those around them", () =>
    Effect.gen(function*() {
      const outer = ExecutorSettings.layer({
        mode: "parallel",
        executionTimeout: "1 second",
        output: { maxChars: 300, batchChars: "unbounded" }
      })
      const inner = ExecutorSettings.layer({ mode: undefined, executionTimeout: 5, output: { maxChars: 400 } })
      const settings = yield* read(inner.pipe(Layer.provide(outer)))
      assert.deepInclude(settings, { mode: "parallel", executionMillis: 5 })
      assert.deepInclude(settings.output, { maxChars: 400, batchChars: Infinity, maxFileChars: 5_000_000 })
    }))

  it.effect("name the principal, else the context does", () =>
    Effect.gen(function*() {
      const around = Layer.succeed(ToolExecutor.Principal, "ada")
      assert.strictEqual((yield* read(around)).principal, "ada")
      assert.strictEqual(
        (yield* read(Layer.merge(around, ExecutorSettings.layer({ principal: "bob" })))).principal,
        "bob"
      )
    }))

  it.effect("fail with everything that is wrong, each at its place", () =>
    Effect.gen(function*() {
      const duration = "a duration above zero, such as \"30 seconds\""
      assert.deepStrictEqual(
        yield* problemsOf({
          principal: "",
          mode: "paralel",
          onExecutionError: 1,
          approval: null,
          heartbeats: "yes",
          exitAttempts: -1,
          executionTimeout: "soon",
          commitTimeout: NaN,
          cleanupGrace: -5,
          guardTimeout: -5n,
          toolEvents: 0,
          eventBuffer: NaN,
          output: { maxChars: 0, batchChars: "all", previewDepth: -1 }
        }),
        {
          principal: "it is \"\"; a text that is not empty",
          mode: "it is \"paralel\"; one of classes, parallel, sequential",
          onExecutionError: "it is 1; one of continue, stop",
          approval: "it is null; one of perCall, upfront",
          heartbeats: "it is \"yes\"; one of true, false",
          exitAttempts: "it is -1; 0 or more",
          executionTimeout: `it is "soon"; ${duration}`,
          commitTimeout: `it is NaN; ${duration}`,
          cleanupGrace: `it is -5; ${duration}`,
          guardTimeout: `it is -5n; ${duration}`,
          toolEvents: "it is 0; one of true, false",
          eventBuffer: "it is NaN; 0 or more",
          "output.maxChars": "it is 0; 1 or more, or \"unbounded\"",
          "output.batchChars": "it is \"all\"; 1 or more, or \"unbounded\"",
          "output.previewDepth": "it is -1; 0 or more"
        }
      )
    }))

  it.effect("come from the configuration", () =>
    Effect.gen(function*() {
      const layer = LayerConfig.from(ExecutorSettings.layer, {
        executionTimeout: Config.Duration("TIMEOUT"),
        output: { maxChars: Config.Int("CHARS") }
      })
      const provide = (env: Record<string, string>) =>
        Layer.provide(layer, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      const settings = yield* read(provide({ TIMEOUT: "3 seconds", CHARS: "700" }))
      assert.deepInclude(settings, { executionMillis: 3_000, commitMillis: 5_000 })
      assert.strictEqual(settings.output.maxChars, 700)
      assert.strictEqual((yield* Effect.flip(read(provide({ CHARS: "700" }))))._tag, "ConfigError")
      // what reads as a number may still be no setting
      const wrong = yield* Effect.flip(read(provide({ TIMEOUT: "3 seconds", CHARS: "-1" })))
      assert.include(wrong.message, "output.maxChars: it is -1")
    }))

  it("are no settings of an executor until somebody gives them", () => {
    assert.deepStrictEqual(Context.get(Context.empty(), ExecutorSettings.ExecutorSettings), {})
  })
})
