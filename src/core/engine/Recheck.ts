/** What is looked at once more before a call starts: the gates whose answer may have changed while it waited. */
import { clip } from "../../internal/clip.ts"
import * as Permissions from "../gates/Permissions.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type * as Grant from "../vocabulary/Grant.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { Call } from "./Call.ts"
import * as CallClaims from "./CallClaims.ts"
import { denied, type End } from "./CallEnd.ts"
import * as Revisions from "./Revisions.ts"
import { blockedEnd, turnEnd } from "./State.ts"
import * as Targets from "./Targets.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Gates 1, 2, 5, 6, 9 and 12 once more; `grants` are the standing permissions as
 * the store has them now, where that matters.
 */
export const recheck = (
  wave: WaveState,
  call: Call,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined,
  now: number
): End | undefined =>
  call.decided ??
    turnEnd(wave.process, call.counted, now) ??
    denied(Permissions.check(call.agent.permissions, call.gateCall!, wave)) ??
    (call.resumed?.started === undefined ? outOfOrder(wave, call) : undefined) ??
    denied(Targets.changed(call, now)) ??
    denied(withdrawn(wave, call, grants))

/** The refusal of a call that nobody has allowed, with the permission that it needed. */
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

/** The refusal of a call whose standing permission was taken back. */
export const revoked = (call: Call, { targets }: Grant.Grant): ToolRefusal =>
  notAllowed(call, { remember: targets === undefined ? "tool" : "resources" }, { by: "user", reason: "revoked" })

// Utilities

/** One that had started in an earlier life is judged by neither any more. */
const outOfOrder = (wave: WaveState, call: Call): End | undefined =>
  blockedEnd(wave.process, call.call.name) ?? CallClaims.orderEnd(wave, call)

/**
 * A standing permission is looked at once more: it may have been taken back. One
 * that has expired meanwhile holds, for the call was let through before.
 */
const withdrawn = (
  wave: WaveState,
  call: Call,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined
): ToolRefusal | undefined => {
  const { handlers, revoked: revokedHere } = wave.engine
  const { consent: { approved, grant, isOwnGrant }, tool } = call
  if ((approved || grant !== undefined) && !Revisions.isCurrent(handlers, tool!)) {
    return notAllowed(call, { remember: "tool" }, { by: "user", reason: "the tool is not what it was any more" })
  }
  if (grant === undefined) return undefined
  if (revokedHere.has(grant.id)) return revoked(call, grant)
  // the store may not have noted yet what was answered just now
  if (isOwnGrant || grants === undefined) return undefined
  if ("operation" in grants) {
    wave.unanswered(call, grants)
    return { _tag: "StoreUnavailable", operation: grants.operation }
  }
  return grants.some((it) => it.id === grant.id) ? undefined : revoked(call, grant)
}
