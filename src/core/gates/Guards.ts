/**
 * Gate 7: the host's own checks.
 *
 * A guard is a gate that is asked once: when the run of a call begins, before anything is reserved. It says no by
 * failing. One that dies or takes too long says no, too.
 */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Gate from "./Gate.ts"

/** One check of the host. */
export interface Guard<R = never> {
  /** Named in the refusal. */
  readonly name: string
  /** Succeeds to let the call pass; fails to refuse it, with the reason for the model. */
  readonly check: (call: Gate.GateCall) => Effect.Effect<void, string | ToolRefusal, R>
}

/** The services that guards require. */
export type ServicesOf<G extends Guard<unknown>> = G extends Guard<infer R> ? R : never

/** Layer of the host's guards, asked in order. It replaces those further out. */
export const layer = <const G extends ReadonlyArray<Guard<unknown>>>(
  guards: G
): Layer.Layer<never, never, ServicesOf<G[number]>> =>
  Gate.layerAll<ServicesOf<G[number]>>(
    "Guards",
    (guards as ReadonlyArray<Guard<ServicesOf<G[number]>>>).map((it) => ({
      name: it.name,
      guard: (call) => it.check(call)
    }))
  )

/** Layer without guards. */
export const layerNoop: Layer.Layer<never> = layer([])

/** Checks by tool, each with the parameters of its tool. */
export type Checks<Tools extends Record<string, Tool.Any>> = {
  readonly [K in keyof Tools]?: (
    params: Tool.Parameters<Tools[K]>,
    call: Gate.GateCall
  ) => Effect.Effect<void, string | ToolRefusal, unknown>
}

const make = <Tools extends Record<string, Tool.Any>, const C extends Checks<Tools>>(
  toolkit: { readonly tools: Tools },
  checks: C,
  options?: { readonly name?: string | undefined }
): Guard<Gate.ServicesOf<C>> => {
  const byTool = new Map(
    Object.entries(checks).map(([name, check]) => {
      const isParams = Schema.is(toolkit.tools[name]!.parametersSchema as Schema.Codec<unknown>)
      return [name, { check: check as Check<Gate.ServicesOf<C>>, isParams }] as const
    })
  )
  return {
    name: options?.name ?? "the host",
    check: (call) => {
      const found = byTool.get(call.tool.name)
      if (found === undefined) return Effect.void
      // another tool may have taken the name
      return found.isParams(call.params)
        ? found.check(call.params, call)
        : Effect.fail("its arguments are not those that the check is written for")
    }
  }
}

type Check<R> = (params: unknown, call: Gate.GateCall) => Effect.Effect<void, string | ToolRefusal, R>

export {
  /**
   * Creates a guard from checks by tool, each of which is given the decoded parameters of its tool. Tools without a
   * check pass.
   *
   * **Example** (A limit on what may be paid)
   *
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Tool, Toolkit } from "effect/ai"
   * import { Guards } from "effect-tool-executor"
   *
   * const Pay = Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String, amount: Schema.Finite }) })
   *
   * export const limit = Guards.for(Toolkit.make(Pay), {
   *   pay: ({ amount }) => amount > 100 ? Effect.fail("At most 100 may be paid.") : Effect.void
   * })
   * ```
   */
  make as for
}
