// What a guard costs: `LanguageModel.generateText` with a toolkit as it is beside the same one behind the executor.
import { Effect, Layer, Schema, Stream } from "effect"
import { LocalExecutor, ToolExecutor } from "effect-tool-executor"
import { LanguageModel, type Response, Tool, Toolkit } from "effect/ai"
import { compare, fixed, type Side } from "./measure.ts"

const Read = Tool.make("read", {
  parameters: Schema.Struct({ path: Schema.String, line: Schema.Int, deep: Schema.Boolean }),
  success: Schema.Struct({ ok: Schema.Boolean })
}).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Read)
const handlers = kit.toLayer({ read: () => Effect.succeed({ ok: true }) })
const size = 100

let serial = 0
const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () =>
      Effect.sync(() =>
        Array.from({ length: size }, (): Response.PartEncoded => ({
          type: "tool-call",
          id: `c${++serial}`,
          name: "read",
          params: { path: `p${serial}`, line: serial, deep: true }
        }))
      ),
    streamText: () => Stream.empty
  })
)
const layer = Layer.mergeAll(
  model,
  handlers,
  LocalExecutor.layer(kit, { policy: { default: "allow" }, executionTimeout: "30 seconds" }).pipe(
    Layer.provide(handlers)
  )
)

/** Rows of the table, by what was measured. */
export const rows = Effect.gen(function*() {
  const context = yield* Effect.context<LanguageModel.LanguageModel | Tool.HandlersFor<typeof kit.tools>>()
  const process = yield* Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process())
  const guarded = yield* process.guard(kit)
  const side = (
    name: string,
    request: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel | Tool.HandlersFor<typeof kit.tools>>
  ): Side => ({
    name,
    prepare: () => () => Effect.runPromiseWith(context)(request)
  })
  const [plain, behind] = yield* Effect.promise(() =>
    compare(
      [
        side("plain", LanguageModel.generateText({ prompt: "go", toolkit: kit })),
        side("guarded", LanguageModel.generateText({ prompt: "go", toolkit: guarded }))
      ],
      size,
      100
    )
  )
  return {
    "generateText, 100 calls, guarded": {
      "us/call": fixed(behind!),
      "floor us/call": fixed(plain!),
      "us added": fixed(behind! - plain!)
    }
  }
}).pipe(Effect.scoped, Effect.provide(layer))
