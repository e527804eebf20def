/** A random executor and random work for it, all from one seed. */
import type { Duration } from "effect"
import { Effect, Layer } from "effect"
import {
  Dedupe,
  ExecutorSettings,
  Guards,
  Permissions,
  Pools,
  Rules,
  ToolExecutor,
  ToolHandlers,
  type ToolRule,
  TurnBudget
} from "effect-tool-executor"
import { type Scenario, ScriptedTools } from "effect-tool-executor/testing"
import * as StateStore from "../../src/core/store/StateStore.ts"
import * as ToolCall from "../../src/core/vocabulary/ToolCall.ts"
import { randomFrom, type SeededRandom } from "../../src/testing/SeededRandom.ts"

export { randomFrom, type SeededRandom }

const behaviour = ({ chance, int, pick }: SeededRandom): Scenario.Behaviour => ({
  takes: `${pick([0, 0, 5, 10, 20, 50])} millis`,
  ...(chance(0.15) ? { fails: "no" } : {}),
  ...(chance(0.1) ? { retryable: false } : {}),
  ...(chance(0.05) ? { dies: "defect" } : {}),
  ...(chance(0.1) ? { never: true } : {}),
  ...(chance(0.1) ? { deaf: true } : {}),
  ...(chance(0.1) ? { progress: [{ at: `${int(6)} millis`, message: "half" }] } : {}),
  ...(chance(0.1) ? { lateCommit: "5 millis" } : {})
})

const tool = (random: SeededRandom): Scenario.ScriptedTool => {
  const { chance, int, pick } = random
  return {
    class: pick(["ReadOnly", "ConcurrentMut", "SerialMut"]),
    // a limit for every tool, so that what never ends by itself ends
    timeout: `${1 + int(60)} millis`,
    calls: [behaviour(random), behaviour(random), behaviour(random)],
    ...(chance(0.3) ? { maxConcurrent: 1 + int(3) } : {}),
    ...(chance(0.4) ? { resources: ["key"] } : {}),
    ...(chance(0.2) ? { retryOnTimeout: false } : {})
  }
}

/** Counts what happens to each reservation of a store. */
export const recordingStore = () => {
  const memory = StateStore.makeMemory()
  const states = new Map<string, "open" | "running" | "done">()
  const mistakes: Array<string> = []
  const expectState = (id: string, state: string, what: string) => {
    if (states.get(id) !== state) mistakes.push(`${what} of reservation ${id}, which is ${states.get(id)}`)
  }
  const store = StateStore.StateStore.of({
    ...memory,
    reserve: (requests, now) => {
      const answer = Effect.runSync(memory.reserve(requests, now))
      for (const it of answer) if (!("_tag" in it)) states.set(it.id, "open")
      return Effect.succeed(answer)
    },
    settle: (reservation, settlement, now) => {
      expectState(reservation.id, "open", "settlement")
      states.set(reservation.id, settlement.key === "running" ? "running" : "done")
      return memory.settle(reservation, settlement, now)
    },
    release: (reservation, now) => {
      expectState(reservation.id, "running", "release")
      states.set(reservation.id, "done")
      return memory.release(reservation, now)
    }
  })
  return { store, states, mistakes }
}

export const make = (seed: number) => {
  const random = randomFrom(seed)
  const { chance, int, pick } = random
  const tools = Object.fromEntries(Array.from({ length: 1 + int(5) }, (_, index) => [`t${index}`, tool(random)]))
  const names = Object.keys(tools)
  const pools = { read: 1 + int(4), concurrent: 1 + int(3), serial: 1 }
  const rules: Array<ToolRule.ToolRule> = chance(0.5)
    ? [{ _tag: "MaxCalls", tool: pick(["*", pick(names)]), max: int(6) }]
    : []
  const turn: TurnBudget.Options = chance(0.2)
    ? {
      timeout: `${20 + int(100)} millis`,
      minimumSlice: "1 millis",
      ...(chance(0.5) ? { maxCalls: 1 + int(10) } : {})
    }
    : {}
  const guards: ReadonlyArray<Guards.Guard> = chance(0.2)
    ? [{
      name: "host",
      check: () => chance(0.2) ? Effect.fail("no") : chance(0.3) ? Effect.sleep("3 millis") : Effect.void
    }]
    : []
  const dedupe = pick<Dedupe.Options | false>([
    {},
    { inFlight: "join" },
    { onDuplicate: "replay", inFlight: "join" },
    { onDuplicate: "replay" },
    false
  ])
  const scripted = ScriptedTools.make(tools)
  const recorder = recordingStore()
  const grace: Duration.Input = "10 millis"
  const gates = Layer.mergeAll(
    Rules.layer(rules),
    Permissions.layerAllowAll,
    dedupe === false ? Dedupe.layerNoop : Dedupe.layer(dedupe),
    Pools.layer(pools),
    Layer.succeed(StateStore.StateStore, recorder.store)
  ).pipe(Layer.provideMerge(ToolHandlers.layer(scripted.toolkit)), Layer.provide(scripted.handlers))
  const mode = pick(["classes", "classes", "parallel", "sequential"] as const)
  const settings = Layer.mergeAll(
    ExecutorSettings.layer({
      mode,
      onExecutionError: pick(["continue", "continue", "stop"]),
      cleanupGrace: grace
    }),
    Guards.layer(guards),
    TurnBudget.layer(turn)
  )
  let serial = 0
  const wave = () =>
    Array.from({ length: int(12) }, () => {
      const name = chance(0.08) ? "nope" : pick(names)
      const id = chance(0.1) ? "same" : `c${serial++}`
      if (chance(0.05)) return ToolCall.fromText(id, name, "{")
      return ToolCall.make(id, name, { key: pick(["a", "b"]), n: int(3) })
    })
  return {
    random,
    tools,
    pools,
    mode,
    rules,
    recorder,
    wave,
    layer: ToolExecutor.layer.pipe(Layer.provide(gates), Layer.provide(settings))
  }
}
