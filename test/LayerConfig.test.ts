/** Every layer that takes options takes them from the configuration, too. */
import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import {
  Approvals,
  ArtifactStore,
  Checkpoints,
  CircuitBreakers,
  type ConfigurationError,
  Dedupe,
  LayerConfig,
  LocalExecutor,
  Permissions,
  Pools,
  RateLimits,
  Rules,
  StateStore,
  ToolCall,
  ToolExecutor,
  ToolHandlers,
  ToolRule
} from "../src/index.ts"
import * as VirtualTime from "../src/testing/VirtualTime.ts"
import { tags, toolkit } from "./support/Harness.ts"

const { handlers, kit } = toolkit({
  t: { class: "SerialMut", handler: () => Effect.succeed("x".repeat(20_000)) }
})

type Around = Layer.Layer<never, ConfigurationError.ConfigurationError | Config.ConfigError>

const calls = [ToolCall.make("1", "t", {}), ToolCall.make("2", "t", {})]

/** What becomes of two equal calls, with a layer around the executor and the environment around that. */
const tagsOf = (
  layer: Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError.ConfigurationError | Config.ConfigError>,
  env: Record<string, string>
) =>
  Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const process = yield* executor.process()
    return tags(yield* process.executeWave(calls))
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(layer, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))),
    (it) => VirtualTime.run(it, { limit: "1 hour" })
  )

const local = <I>(around: Layer.Layer<I, ConfigurationError.ConfigurationError | Config.ConfigError>) =>
  LocalExecutor.layer(kit).pipe(Layer.provide(handlers), Layer.provide(around as Around))

const ruleSet = Config.schema(Schema.fromJsonString(Schema.Array(ToolRule.ToolRule)), "X")

const allow = Permissions.layer({ default: "allow" })

describe("a layer from the configuration", () => {
  it.effect("decides as the environment says, and is not built where that is wrong", () =>
    Effect.gen(function*() {
      const rows = [
        [
          local(
            Layer.merge(
              allow,
              LayerConfig.from(Dedupe.layer, {
                window: Config.Duration("X"),
                onDuplicate: Config.succeed("reject" as const)
              })
            )
          ),
          "5 minutes",
          ["Succeeded", "DuplicateCall"],
          "soon"
        ],
        [
          local(LayerConfig.from(Permissions.layer, { default: Config.Literals(["allow", "deny"], "X") })),
          "deny",
          ["PolicyDenied", "PolicyDenied"],
          "perhaps"
        ],
        [
          local(Layer.merge(allow, LayerConfig.from(Pools.layer, { serial: Config.Int("X") }))),
          "1",
          ["Succeeded", "DuplicateCall"],
          "0"
        ],
        [
          local(Layer.merge(allow, LayerConfig.from(CircuitBreakers.layer, { storeTimeout: Config.Duration("X") }))),
          "1 second",
          ["Succeeded", "DuplicateCall"],
          "soon"
        ],
        [
          local(Layer.mergeAll(
            allow,
            Dedupe.layerNoop,
            LayerConfig.from(RateLimits.layer, {
              perPrincipal: { limit: Config.Int("X"), window: Config.succeed("1 minute" as const) }
            })
          )),
          "1",
          ["Succeeded", "RateLimited"],
          "0"
        ],
        [
          local(LayerConfig.from(Approvals.layer, { timeout: Config.Duration("X") })),
          "1 second",
          ["PermissionDenied", "PermissionDenied"],
          "soon"
        ],
        [
          local(Layer.merge(allow, LayerConfig.from(ArtifactStore.layerMemory, { maxCount: Config.Int("X") }))),
          "3",
          ["Succeeded", "DuplicateCall"],
          "-1"
        ],
        [
          local(Layer.merge(allow, LayerConfig.from(Checkpoints.layerMemory, { maxCount: Config.Int("X") }))),
          "3",
          ["Succeeded", "DuplicateCall"],
          "0"
        ],
        [
          local(Layer.merge(allow, LayerConfig.from(StateStore.layerMemory, { maxKeys: Config.Int("X") }))),
          "0",
          ["Succeeded", "Succeeded"],
          "-1"
        ],
        [
          Layer.fresh(ToolExecutor.layer).pipe(
            Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
            Layer.provide(LayerConfig.from(Rules.layer, ruleSet)),
            Layer.provide(ToolHandlers.layer(kit)),
            Layer.provide(handlers)
          ),
          JSON.stringify([{ _tag: "MaxCalls", tool: "t", max: 0 }]),
          ["RuleViolation", "RuleViolation"],
          "[{}]"
        ],
        [
          LayerConfig.from((options: LocalExecutor.Options) => LocalExecutor.layer(kit, options), {
            policy: Config.succeed({ default: "allow" } as const),
            rules: ruleSet,
            dedupe: Config.succeed(false as const)
          }).pipe(Layer.provide(handlers)),
          JSON.stringify([{ _tag: "MaxCalls", tool: "t", max: 1 }]),
          ["Succeeded", "RuleViolation"],
          JSON.stringify([{ _tag: "MaxCalls", tool: "u", max: 1 }])
        ]
      ] as const
      for (const [layer, X, expected, wrong] of rows) {
        assert.deepStrictEqual(yield* tagsOf(layer, { X }), expected)
        const error = yield* Effect.flip(tagsOf(layer, { X: wrong }))
        assert.include(["ConfigError", "ConfigurationError"], error._tag)
        assert.strictEqual((yield* Effect.flip(tagsOf(layer, {})))._tag, "ConfigError")
      }
    }), { tags: ["Y6"] })
})
