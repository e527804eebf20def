// What rules cost: twenty that concern every call next to none, a thousand next to those twenty, a process with a hundred
// thousand calls behind it next to one with ten.
import { Context, Effect, Layer, Schema } from "effect"
import { LocalExecutor, ToolCall, ToolExecutor, type ToolProcess, type ToolRule } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import { compare, type Side } from "./measure.ts"
import { byHand, plenty } from "./subject.ts"
import type { Line } from "./table.ts"

const Params = Schema.Struct({ path: Schema.String, line: Schema.Int, kind: Schema.Literals(["a", "b"]) })
const options = { parameters: Params, success: Schema.Struct({ ok: Schema.Boolean }) }
const read = (name: string) => Tool.make(name, options).annotate(Tool.Readonly, true)
const others = Array.from({ length: 100 }, (_, index) => `other${index}`)
const kit = Toolkit.make(read("read"), read("login"), read("setup"), read("end"), ...others.map(read))
const done = { ok: true }
const names = ["read", "login", "setup", "end", ...others]
const handlers = kit.toLayer(Object.fromEntries(names.map((name) => [name, () => Effect.succeed(done)])))

/** Twenty rules that are all looked at for a call of "read", and let it through. */
const twenty: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "StartConstraint", tool: "login" },
  { _tag: "StartConstraint", tool: "setup" },
  ...Array.from(
    { length: 4 },
    () => ({ _tag: "RequiresPrecedingTools", tool: "*", tools: ["login", "setup"] }) as const
  ),
  ...Array.from({ length: 4 }, () => ({ _tag: "RequiresFollowingTools", tool: "*", tools: ["end"] }) as const),
  { _tag: "AllowedOperations", tool: "read", field: "kind", allowed: ["a"] },
  { _tag: "AllowedOperations", tool: "read", field: "kind", allowed: ["a", "b"] },
  { _tag: "MaxCalls", tool: "*", max: 1_000_000_000 },
  { _tag: "MaxCalls", tool: "read", max: 900_000_000 },
  { _tag: "ExclusiveGroup", tools: ["read", "other0"] },
  { _tag: "ExclusiveGroup", tools: ["read", "other1"] },
  { _tag: "ChildTools", tool: "other2", children: ["other3"] },
  { _tag: "RequiredBeforeExit", tool: "other4" },
  { _tag: "ExitLoop", tool: "end" },
  { _tag: "ContinueLoop", tool: "read" }
]

/** Rules about other tools. */
const elsewhere = (count: number): ReadonlyArray<ToolRule.ToolRule> =>
  Array.from({ length: count }, (_, index) => {
    const tool = others[5 + index % 90]!
    return index % 3 === 0
      ? { _tag: "MaxCalls", tool, max: 10 + index }
      : index % 3 === 1
      ? { _tag: "RequiresFollowingTools", tool, tools: [others[96]!] }
      : { _tag: "Cooldown", tool, duration: `${index} millis` }
  })

let serial = 0
const calls = (size: number): ReadonlyArray<ToolCall.ToolCall> =>
  Array.from(
    { length: size },
    () => ToolCall.make(`r${++serial}`, "read", { path: `p${serial}`, line: serial, kind: "a" })
  )

/** A process of an executor with these rules, started. */
const open = Effect.fnUntraced(function*(rules: ReadonlyArray<ToolRule.ToolRule>) {
  const layer = LocalExecutor.layer(kit, { rules, policy: { default: "allow" }, executionTimeout: "30 seconds" })
  const context = yield* Layer.build(Layer.fresh(layer).pipe(Layer.provide(handlers)))
  const process = yield* Context.get(context, ToolExecutor.ToolExecutor).process({ batch: "rules" })
  const start = (name: string) => ToolCall.make(name, name, { path: "", line: ++serial, kind: "a" })
  yield* process.executeWave([start("login"), start("setup")])
  return process
})

const wave = (process: ToolProcess.ToolProcess, size: number): Side => ({
  calls: size,
  prepare: () => {
    const wave = calls(size)
    return () => Effect.runPromise(process.executeWave(wave))
  }
})

export const rules = Effect.gen(function*() {
  const size = 1_000
  const [none, some, many] = [yield* open([]), yield* open(twenty), yield* open([...twenty, ...elsewhere(980)])]
  const [noneTime, someTime, manyTime, floor] = yield* Effect.promise(() =>
    compare([wave(none, size), wave(some, size), wave(many, size), byHand(plenty, "read", size)])
  )
  const [old, young] = [yield* open(twenty), yield* open(twenty)]
  yield* Effect.forEach(Array.from({ length: 100 }), () => old.executeWave(calls(1_000)), { discard: true })
  const [oldTime, youngTime] = yield* Effect.promise(() => compare([wave(old, 10), wave(young, 10)]))
  return [
    {
      what: "what 20 matching rules add to a call vs the floor's whole call",
      value: someTime - noneTime,
      peer: floor,
      unit: "µs/call",
      bar: { of: "ratio", limit: 0.5 }
    },
    { what: "a call under 1,000 rules vs 20 rules", value: manyTime, peer: someTime, unit: "µs/call" },
    { what: "the call after 100,000 others vs after 10", value: oldTime, peer: youngTime, unit: "µs/call" }
  ] satisfies ReadonlyArray<Line>
})
