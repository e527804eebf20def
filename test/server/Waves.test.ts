/** The waves of all sessions: handed over once, run to their end, found again. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import {
  Approvals,
  Dedupe,
  Journal,
  Permissions,
  Pools,
  Rules,
  ToolExecutors,
  ToolHandlers,
  type ToolRule
} from "../../src/index.ts"
import type { LiveItem } from "../../src/server/ApiQuestions.ts"
import * as LiveLog from "../../src/server/LiveLog.ts"
import * as Waves from "../../src/server/Waves.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { toolkit, type ToolSpec } from "../support/Harness.ts"

/** Executors over tools, and the waves of their sessions. */
const served = (
  tools: { readonly [name: string]: ToolSpec },
  { options, rules = [], told = [] }: {
    readonly options?: Waves.Options
    readonly rules?: ReadonlyArray<ToolRule.ToolRule>
    readonly told?: Array<LiveItem>
  } = {}
) => {
  const { handlers, kit } = toolkit(tools)
  const gates = Layer.mergeAll(
    Rules.layer(rules),
    Permissions.layer({ default: "allow" }),
    Dedupe.layerNoop,
    Pools.layer()
  ).pipe(Layer.provideMerge(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))))
  const live = Layer.succeed(LiveLog.LiveLog, {
    tell: (_, item) => void told.push(item),
    cursor: Effect.succeed(""),
    stop: Effect.void,
    stream: () => Stream.empty
  })
  return Waves.layer(options).pipe(
    Layer.provideMerge(ToolExecutors.layer()),
    Layer.provide(gates),
    Layer.provide(live),
    Layer.provideMerge(Journal.layerMemory()),
    Layer.provideMerge(Approvals.layer())
  )
}

const run = <A, E>(
  program: Effect.Effect<A, E, Scope.Scope | Waves.Waves | ToolExecutors.ToolExecutors>,
  layer: ReturnType<typeof served>
) => VirtualTime.run(Effect.scoped(Effect.provide(program, layer)), { limit: "3 days" })

const ada = { user: "ada", session: "one" }

const openai = (...names: ReadonlyArray<string>) => ({
  role: "assistant",
  tool_calls: names.map((name, index) => ({
    id: `c${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify({ index }) }
  }))
})

describe("a message that is handed over", () => {
  it.effect("has a result for each of its calls, in the provider's own format", () => {
    const told: Array<LiveItem> = []
    return run(
      Effect.gen(function*() {
        const waves = yield* Waves.Waves
        const handle = yield* waves.handOver(ada, { message: openai("read", "none", "read") })
        const wave = yield* handle.ended
        assert.strictEqual(wave.status, "ended")
        assert.strictEqual(wave.format, "openai")
        const messages = wave.messages as ReadonlyArray<{ readonly role: string; readonly tool_call_id: string }>
        assert.deepStrictEqual(messages.map((it) => it.tool_call_id), ["c0", "c1", "c2"])
        assert.strictEqual(wave.end?._tag, "ToolsEnd")
        const events = yield* Stream.runCollect(handle.events(undefined))
        assert.deepStrictEqual(events.map(({ event }) => event), [
          "tool_call_queued",
          "tool_call_queued",
          "tool_call_queued",
          ...events.map(({ event }) => event).slice(3, -1),
          "tools_end"
        ])
        assert.strictEqual(told[0]?._tag, "WaveBegan")
        assert.strictEqual(told.at(-1)?._tag, "WaveEnded")
        assert.strictEqual(told.filter(({ _tag }) => _tag === "WaveEvent").length, events.length)
      }),
      served({ read: { handler: () => Effect.succeed("text") } }, { told })
    )
  })
})
