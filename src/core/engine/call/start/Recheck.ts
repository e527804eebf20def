/** What is checked again before a call starts: the gates whose answer may have changed while it waited. */
import { clip } from "../../../../internal/clip.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import type { StateStoreError } from "../../../store/StateStore.ts"
import type * as Grant from "../../../vocabulary/Grant.ts"
import type { ToolRefusal } from "../../../vocabulary/ToolRefusal.ts"
import { denied, type End } from "../../data/CallEnd.ts"
import * as Revisions from "../../data/Revisions.ts"
import { blockedEnd, turnEnd } from "../../state/State.ts"
import * as Targets from "../arrive/Targets.ts"
import type { Call } from "../Call.ts"
import * as CallClaims from "../dispatch/CallClaims.ts"
import type { WaveHost } from "../WaveHost.ts"

/** Runs gates 1, 2, 5, 6, 9 and 12 again. `grants` are those now in the store, if they matter. */
export const recheck = (
  wave: WaveHost,
  call: Call,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined,
  now: number
): End | undefined =>
  call.decided ??
    turnEnd(wave.process, call.counted, now) ??
    denied(Permissions.check(call.agent.permissions, call.gateCall!, wave)) ??
    outOfOrder(wave, call) ??
    denied(Targets.changed(call, now)) ??
    denied(withdrawn(wave, call, grants))

/** The refusal of a call that is not approved, with the permission that it needs. */
export const notAllowed = (
  { gateCall, tool }: Call,
  { remember: scope }: Pick<Permissions.Asks, "remember">,
  { by, reason }: {
    readonly by: Extract<ToolRefusal, { readonly _tag: "PermissionDenied" }>["by"]
    readonly reason?: string | undefined
  }
): ToolRefusal => {
  const about = gateCall?.targets?.map(({ text }) => text).join(", ") ?? ""
  const permission = clip(about === "" ? tool!.name : `${tool!.name}(${about})`, 300)
  return { _tag: "PermissionDenied", by, ...(reason === undefined ? {} : { reason }), permission, scope }
}

/** The refusal of a call whose grant was revoked. */
export const revoked = (call: Call, { targets }: Grant.Grant): ToolRefusal =>
  notAllowed(call, { remember: targets === undefined ? "tool" : "resources" }, { by: "user", reason: "revoked" })

/** Checks blocks and order again. A call that had started in an earlier life is exempt. */
const outOfOrder = (wave: WaveHost, call: Call): End | undefined =>
  call.hasRun ? undefined : blockedEnd(wave.process, call.call.name) ?? CallClaims.orderEnd(wave, call)

/**
 * Checks a grant again: it may have been revoked. One that has expired meanwhile still holds, because the
 * call was let through before.
 */
const withdrawn = (
  wave: WaveHost,
  call: Call,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined
): ToolRefusal | undefined => {
  const { handlers, revoked: revokedHere } = wave.engine
  const { consent: { approved, grant, isOwnGrant }, tool } = call
  if ((approved !== undefined || grant !== undefined) && !Revisions.isCurrent(handlers, tool!)) {
    return notAllowed(call, { remember: "tool" }, { by: "user", reason: "the tool has changed since it was approved" })
  }
  if (grant === undefined) return undefined
  if (revokedHere.has(grant.id)) return revoked(call, grant)
  // the store may not have stored a permission that was given just now
  if (isOwnGrant || grants === undefined) return undefined
  if ("operation" in grants) {
    wave.unanswered(call, grants)
    return { _tag: "StoreUnavailable", operation: grants.operation }
  }
  return grants.some((it) => it.id === grant.id) ? undefined : revoked(call, grant)
}
