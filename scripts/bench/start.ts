// What starting costs: the import of the package as it is built, next to effect's own; a first layer and a first call of a
// fresh program; and a layer once the program is warm.
import { Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { compare, median } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

const program = `
const began = performance.now()
const { Context, Effect, Layer, Schema } = await import("effect")
const { Tool, Toolkit } = await import("effect/ai")
const effect = performance.now()
const { LocalExecutor, ToolExecutor } = await import("effect-tool-executor")
const imported = performance.now()
const kit = Toolkit.make(Tool.make("read", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.Boolean }))
const layer = LocalExecutor.layer(kit, { policy: { default: "allow" } }).pipe(
  Layer.provide(kit.toLayer({ read: () => Effect.succeed(true) }))
)
await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const context = yield* Layer.build(layer)
  const built = performance.now()
  const process = yield* Context.get(context, ToolExecutor.ToolExecutor).process()
  yield* process.executeWave([{ id: "1", name: "read", params: { path: "a" } }])
  console.log(JSON.stringify([effect - began, imported - effect, built - imported, performance.now() - built]))
})))`

export const start = Effect.gen(function*() {
  // the sources would be compiled on the way
  execFileSync(process.execPath, [`${root}scripts/build.ts`], { stdio: "ignore" })
  const runs = Array.from({ length: 9 }, () =>
    JSON.parse(
      execFileSync(process.execPath, ["--input-type=module", "--eval", program], { cwd: root, encoding: "utf8" })
    ) as ReadonlyArray<number>)
  const [effect, imported, layer, first] = [0, 1, 2, 3].map((part) => median(runs.map((run) => run[part]!))) as [
    number,
    number,
    number,
    number
  ]
  const build: () => Promise<unknown> = () =>
    Effect.runPromise(Effect.scoped(Layer.build(Layer.fresh(Subject.layer(Subject.plenty)))))
  const repeated = {
    calls: 20,
    prepare: () => async () => {
      for (let n = 0; n < 20; n++) await build()
    }
  }
  const [warm] = yield* Effect.promise(() => compare([repeated]))
  return [
    { what: "importing the package vs effect and effect/ai", value: imported, peer: effect, unit: "ms" },
    { what: "the first layer of a program", value: layer, unit: "ms" },
    { what: "the first call of a program", value: first, unit: "ms" },
    { what: "a layer of a warm program", value: warm, unit: "µs" }
  ] satisfies ReadonlyArray<Line>
})
