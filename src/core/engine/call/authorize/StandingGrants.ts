/** The grants that cover a call: what people approved for longer than one call. */
import * as Effect from "effect/Effect"
import type { GateCall } from "../../../gates/Gate.ts"
import type * as Permissions from "../../../gates/Permissions.ts"
import type { StateStoreError } from "../../../store/StateStore.ts"
import * as Grant from "../../../vocabulary/Grant.ts"
import * as Revisions from "../../data/Revisions.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"

/**
 * Returns the grant that covers a call, if any. Without an answer from the store there is none, so
 * approval is requested.
 */
export const grantFor = (
  wave: WaveHost,
  call: Call,
  question: Permissions.Asks,
  targets: GateCall["targets"] = call.gateCall!.targets
): Effect.Effect<Grant.Grant | undefined> => {
  const now = wave.now()
  return Effect.mapEager(
    wave.engine.store.grants(wave.engine.principal, now, wave.patience),
    (grants) => {
      if ("operation" in grants) wave.unanswered(call, grants)
      return grantOf(wave, call, question, targets, grants, now)
    }
  )
}

/** Returns the first of these grants that covers a call. */
export const grantOf = (
  { engine: { handlers, revoked } }: WaveHost,
  call: Call,
  { approvers, remember }: Permissions.Asks,
  targets: GateCall["targets"],
  grants: ReadonlyArray<Grant.Grant> | StateStoreError,
  now: number
): Grant.Grant | undefined => {
  if (
    "operation" in grants || remember === "call" || grants.length === 0 || !Revisions.isCurrent(handlers, call.tool!)
  ) return undefined
  const { agentPath, tool: { name: tool } } = call.gateCall!
  const about = { agentPath, tool, revision: Revisions.of(call.tool!), targets, approvers }
  return grants.find((it) => !revoked.has(it.id) && Grant.covers(it, about, now))
}
