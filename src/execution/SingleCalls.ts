/**
 * Calls that are handed over one by one, run as if they were one wave: reads
 * side by side, a write alone, after what came before it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { makeRunGate } from "../internal/runGate.ts"
import type { ToolCall } from "../ToolCall.ts"
import type { Engine } from "./Engine.ts"

/**
 * Gives what takes a call its place behind those that came before; what runs it
 * waits for its turn. A call that has its place has to be run, or the next would
 * wait for it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (engine: Engine) => {
  const gate = makeRunGate()
  return (call: ToolCall): <A>(run: Effect.Effect<A>) => Effect.Effect<A> => {
    const tool = engine.handlers.current().get(call.name)
    const mayOverlap = engine.mode === "parallel" ||
      (engine.mode === "classes" && tool !== undefined && tool.class !== "SerialMut" &&
        !engine.rules.current().forTool(call.name).closesRun)
    const turn: { go?: () => void; isThere: boolean } = { isThere: false }
    const lane = engine.mode === "parallel" ? "" : tool?.class ?? ""
    const arrival = gate.arrive(lane, mayOverlap, () => {
      turn.isThere = true
      turn.go?.()
    })
    const waited = Effect.callback<void>((resume) => {
      turn.go = () => resume(Effect.void)
      if (turn.isThere) turn.go()
    })
    return (run) => Effect.ensuring(Effect.andThen(waited, run), Effect.sync(arrival.leave))
  }
}
