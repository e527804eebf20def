// What a guard costs: `LanguageModel.generateText` with a toolkit as it is next to the same one behind the executor.
import { Effect, Layer, Stream } from "effect"
import { LanguageModel, type Response, type Tool } from "effect/ai"
import { compare, type Side } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const size = 100

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () =>
      Effect.sync(() =>
        Array.from({ length: size }, (): Response.PartEncoded => {
          const { id, name, params } = Subject.call("read")
          return { type: "tool-call", id, name, params }
        })
      ),
    streamText: () => Stream.empty
  })
)

type Services = LanguageModel.LanguageModel | Tool.HandlersFor<typeof Subject.kit.tools>

export const guard = Effect.gen(function*() {
  const context = yield* Effect.context<Services>()
  const process = yield* Subject.open(Subject.plenty)
  const guarded = yield* Effect.orDie(process.guard(Subject.kit))
  const side = (request: Effect.Effect<unknown, unknown, Services>): Side => ({
    calls: size,
    prepare: () => () => Effect.runPromiseWith(context)(request)
  })
  const [peer, value] = yield* Effect.promise(() =>
    compare([
      side(LanguageModel.generateText({ prompt: "go", toolkit: Subject.kit })),
      side(LanguageModel.generateText({ prompt: "go", toolkit: guarded }))
    ])
  )
  return [
    { what: "generateText of effect/ai, 100 calls, guarded vs unguarded", value, peer, unit: "µs/call" }
  ] satisfies ReadonlyArray<Line>
}).pipe(Effect.provide(Layer.merge(model, Subject.kit.toLayer(Subject.handlers))))
