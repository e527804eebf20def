/** Replays conversations through the real executor: recorded calls, recorded outputs, and an approver who notes. */
import { Approvals, LocalExecutor, Provenance, Reviewer, ToolCall, ToolExecutor } from "effect-tool-executor"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Derived } from "./Derived.ts"
import type { Script } from "./Script.ts"

/** What decides about calls. */
export interface Gates {
  readonly name: string
  readonly policy: (tools: ReadonlyArray<Derived>) => NonNullable<LocalExecutor.Options["policy"]>
  /** Whether values are traced. */
  readonly isTraced: boolean
  /** Seed of a reviewer who throws a coin; absent: no reviewer. */
  readonly coin?: number | undefined
}

/** What became of a call. */
export type Fate =
  /** It ran, and nobody was asked. */
  | "ran"
  /** A person was asked. */
  | "asked"
  /** It was refused, and nobody was asked. */
  | "refused"

/** A call that changes something or sends data out, and what became of it. */
export interface Decided {
  readonly tool: string
  readonly isInjected: boolean
  readonly fate: Fate
  /** Why a person was asked. */
  readonly why?: string | undefined
}

/** Says what becomes of the calls of conversations over the tools of a suite. */
export const replay = Effect.fnUntraced(function*(
  gates: Gates,
  tools: ReadonlyMap<string, Derived>,
  scripts: ReadonlyArray<Script>
) {
  const asked = new Map<string, string>()
  let output: unknown
  const all = Array.from(tools.values())
  const toolkit = Toolkit.make(...all.map(toolOf))
  const handlers = toolkit.toLayer(
    Object.fromEntries(all.map(({ name }) => [name, () => Effect.sync(() => output)])) as never
  )
  const approver = Approvals.layerApprover((request) =>
    Effect.sync((): Approvals.Answer => {
      asked.set(request.callId, request.why)
      return request.callId.startsWith(injected) ? { _tag: "Deny" } : { _tag: "ApproveOnce" }
    })
  )
  const layer = LocalExecutor.layer(toolkit, { policy: gates.policy(all), dedupe: false }).pipe(
    Layer.provide(handlers),
    Layer.provide(Layer.mergeAll(
      approver,
      gates.isTraced ? Provenance.layer({ tools: declarationsOf(all) }) : Layer.empty,
      gates.coin === undefined ? Layer.empty : coin(gates.coin)
    ))
  )
  return yield* Effect.provide(
    Effect.gen(function*() {
      const executor = yield* ToolExecutor.ToolExecutor
      return yield* Effect.forEach(
        scripts,
        Effect.fnUntraced(function*({ steps }) {
          asked.clear()
          const process = yield* executor.process()
          const decided: Array<Decided> = []
          for (const [index, step] of steps.entries()) {
            if (step._tag === "Heard") {
              yield* process.heard(step.text)
              continue
            }
            const { args, isInjected, tool } = step
            const id = `${isInjected ? injected : "call_"}${index}`
            output = step.output
            const outcome = yield* process.execute(ToolCall.make(id, tool, args))
            if (tools.get(tool)?.declared.effect === "read") continue
            const why = asked.get(id)
            const fate = why !== undefined ? "asked" : outcome._tag === "Denied" ? "refused" : "ran"
            decided.push({ tool, isInjected, fate, why })
          }
          return decided
        }, Effect.scoped)
      )
    }),
    layer
  )
})

/** The declarations of tools, as a host passes them. */
export const declarationsOf = (tools: ReadonlyArray<Derived>) =>
  Object.fromEntries(tools.map(({ declared, name }) => [name, declared]))

const injected = "injected_"

/** A tool as a careful host annotates it: what reaches outside is open-world. */
const toolOf = ({ declared, name }: Derived): Tool.Any =>
  Tool.dynamic(name, { parameters: { type: "object" }, success: Schema.Unknown })
    .annotate(Tool.Readonly, declared.effect !== "write")
    .annotate(Tool.OpenWorld, declared.effect === "egress")

/** A reviewer who allows a call or hands it to a person, by chance. */
const coin = (seed: number) => {
  let state = seed >>> 0
  const isHeads = (): boolean => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0
    let it = Math.imul(state ^ (state >>> 15), state | 1)
    it ^= it + Math.imul(it ^ (it >>> 7), it | 61)
    return ((it ^ (it >>> 14)) >>> 31) === 1
  }
  return Reviewer.layerFunction(() =>
    Effect.sync(() => isHeads() ? { _tag: "Allow", reason: "heads" } : { _tag: "Person", reason: "tails" })
  )
}
