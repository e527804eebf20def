/**
 * The host's own gates: asked about a call at each of their moments, and notified of its end.
 *
 * Without such gates nothing waits.
 */
import * as Effect from "effect/Effect"
import type { Gate, Moment, Verdict } from "../../../gates/Gate.ts"
import * as HostGates from "../../../gates/HostGates.ts"
import type { ToolOutcome } from "../../../vocabulary/ToolOutcome.ts"
import { denied } from "../../data/CallEnd.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"

/** Asks the gates of a moment about a call. */
export const ask = (
  { engine: { guardMillis }, gates }: WaveHost,
  call: Call,
  moment: Moment
): Effect.Effect<Verdict> =>
  gates[moment].length === 0
    ? Effect.undefined
    : HostGates.ask(gates, moment, call.gateCall!, guardMillis, askedGatesOf(call))

/** Asks the gates of a moment about a call, and decides the call if one refuses it. */
export const pass = (wave: WaveHost, call: Call, moment: Moment): Effect.Effect<void> =>
  wave.gates[moment].length === 0 ? Effect.void : Effect.map(ask(wave, call, moment), (verdict) => {
    call.decided ??= denied(verdict)
  })

/** Notifies the gates that were asked about a call of its outcome. */
export const settle = (
  { engine: { guardMillis } }: WaveHost,
  { consent: { askedGates }, gateCall }: Call,
  outcome: ToolOutcome
): Effect.Effect<void> =>
  askedGates === undefined || askedGates.size === 0
    ? Effect.void
    : HostGates.settle(askedGates, gateCall!, outcome, guardMillis)

const askedGatesOf = (call: Call): Set<Gate> => {
  const { askedGates = new Set() } = call.consent
  call.consent = { ...call.consent, askedGates }
  return askedGates
}
