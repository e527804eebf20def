/**
 * Dispatch and Start: which gates a call passes once its run begins, in which
 * order.
 *
 * Dispatch reserves; Start looks once more, holding all permits. The first gate
 * that says no decides. What comes before is `Arrival`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Duplicate } from "../policy/Dedupe.ts"
import * as Gate from "../policy/Gate.ts"
import * as Guards from "../policy/Guards.ts"
import * as Permissions from "../policy/Permissions.ts"
import * as RuleSet from "../policy/RuleSet.ts"
import * as Grant from "../store/Grant.ts"
import type { Claim, KeyTaken, Refused, Settlement, StateStoreError } from "../store/StateStore.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolRefusal } from "../ToolRefusal.ts"
import type { End } from "./Attempt.ts"
import type { CallState } from "./CallState.ts"
import { denied, turn } from "./Ends.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import { lookUp, readKeys } from "./LookUp.ts"
import type { Reserved } from "./PatientStore.ts"
import * as Revisions from "./Revisions.ts"
import * as Targets from "./Targets.ts"

/**
 * What becomes of a call at Dispatch: it is decided, waits for another call's
 * outcome, or goes on to its permits.
 *
 * @category models
 * @since 0.1.0
 */
export type Dispatched =
  | { readonly _tag: "Decided"; readonly end: End }
  /** It gets what an equal call gets or has got, once a person has allowed it where one has to. */
  | { readonly _tag: "Shares"; readonly share: Share; readonly question: Permissions.Asks | undefined }
  /** An equal call has nothing for this one: it is to run itself. */
  | { readonly _tag: "Anew" }
  | { readonly _tag: "Admitted" }
  /** Everything but a person's permission is there. */
  | { readonly _tag: "Asks"; readonly question: Permissions.Asks }

/**
 * What an equal call has for another: its execution, or the outcome that is kept.
 *
 * @category models
 * @since 0.1.0
 */
export type Share = CallState | { readonly outcome: ToolOutcome }

const admitted: Dispatched = { _tag: "Admitted" }
const anew: Dispatched = { _tag: "Anew" }
const decided = (end: End): Dispatched => ({ _tag: "Decided", end })

/**
 * Dispatch, before anything is reserved: gates 1, 2, 6 and 7. Gives the claims
 * of the call, or how it ends.
 *
 * @category stages
 * @since 0.1.0
 */
export const claims = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  now: number
): End | ReadonlyArray<Claim> =>
  call.decided ??
    turn(process, call, now) ??
    blocked(process, call) ??
    denied(call.guarded) ??
    claimsOf(engine, process, call)

/**
 * Dispatch, once the claims are reserved or refused: gates 8 to 12. What is
 * reserved is in `call.reservation` and is settled with the outcome.
 *
 * @category stages
 * @since 0.1.0
 */
export const reserved = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  reserved: Reserved | undefined
): Dispatched => {
  if (reserved !== undefined) {
    if ("operation" in reserved) {
      return decided(call.decided ?? unavailable(reserved))
    }
    if ("_tag" in reserved) return refusedClaim(engine, process, call, reserved)
    call.reservation = reserved
    if (engine.dedupe.leads(call.gateCall!, { mayBeAwaited: call.rules!.mayBeAwaited })) {
      engine.leaders.set(reserved.id, call)
    }
  }
  const end = call.decided ?? outOfOrder(engine, process, call)
  if (end !== undefined) return decided(end)
  const question = unanswered(call)
  if (question === undefined) return admitted
  return call.refused === undefined ? { _tag: "Asks", question } : decided(denied(call.refused)!)
}

const unanswered = (call: CallState): Permissions.Asks | undefined => call.approved ? undefined : asks(call)

const unavailable = ({ operation }: { readonly operation: string }): End =>
  denied({ _tag: "StoreUnavailable", operation })!

/**
 * Counts a call in the turn before it reserves anything: others may be
 * dispatched while a store is asked.
 *
 * @category stages
 * @since 0.1.0
 */
export const count = (process: ProcessState, call: CallState): void => {
  if (call.counted) return
  call.counted = true
  process.budget.take()
}

/**
 * Takes a call out of the turn's count again: it runs nothing itself.
 *
 * @category stages
 * @since 0.1.0
 */
export const uncount = (process: ProcessState, call: CallState): void => {
  call.counted = false
  process.budget.giveBack()
}

/**
 * The resource keys of an admitted call, at once or by an effect. Where they
 * cannot be had, calls of the tool wait for each other.
 *
 * @category stages
 * @since 0.1.0
 */
export const resources = (
  process: ProcessState,
  call: CallState,
  now: number
): ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>> => {
  const tool = call.tool!
  if (tool.class === "ReadOnly") return none
  const alone = [`?${tool.name}`]
  const found = lookUp(process, call, () => tool.resources(call.gateCall!.params), now, readKeys)
  return Effect.isEffect(found) ? Effect.map(found, (keys) => keys ?? alone) : found ?? alone
}

/**
 * What a call that a handler makes would wait for though the handler's own call
 * holds it, as things are now: at once or by an effect.
 *
 * @category stages
 * @since 0.1.0
 */
export const reentry = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  now: number
): string | undefined | Effect.Effect<string | undefined> => {
  if (call.parent === undefined) return undefined
  const found = resources(process, call, now)
  const waitsFor = (keys: ReadonlyArray<string>) => engine.pools.reentry(call, { resources: keys })
  return Effect.isEffect(found) ? Effect.map(found, waitsFor) : waitsFor(found)
}

const none: ReadonlyArray<never> = []

/**
 * Gate 7 for the calls of a run, all at once: the guards of one call are asked
 * in order, those of different calls side by side.
 *
 * @category stages
 * @since 0.1.0
 */
export const guard = (
  engine: Engine,
  process: ProcessState,
  calls: ReadonlyArray<CallState>,
  now: number
): Effect.Effect<void> =>
  engine.guards.length === 0 ? Effect.void : Effect.forEach(
    calls.filter((call) => (call.decided ?? turn(process, call, now) ?? blocked(process, call)) === undefined),
    (call) =>
      Effect.map(Guards.check(engine.guards, call.gateCall!, engine.guardMillis), (verdict) => {
        call.guarded = verdict
      }),
    { concurrency: "unbounded", discard: true }
  )

const blocked = (process: ProcessState, call: CallState): End | undefined => {
  if (process.blocked.size === 0) return undefined
  const because = process.blocked.get(call.call.name)
  return because === undefined ? undefined : denied({ _tag: "ToolBlocked", because })
}

/** Gate 9, for the call's place in its process. */
const outOfOrder = (engine: Engine, process: ProcessState, call: CallState): End | undefined => {
  const { rules } = engine
  const history = process.history.before(rules.current(), call.history, call.index)
  return denied(Gate.orRefused("Rules", () => rules.check(history, call.call.name, call.gateCall)))
}

/**
 * Whether a person has to be asked about a call.
 *
 * @category stages
 * @since 0.1.0
 */
export const asks = (call: CallState): Permissions.Asks | undefined =>
  Permissions.asks(call.agent.permissions, call.gateCall!, call.rules!.consent)

/**
 * The standing permission that lets a call through, of those that its principal
 * has; none where the store cannot tell: then a person is asked.
 *
 * @category stages
 * @since 0.1.0
 */
export const grantFor = (
  engine: Engine,
  call: CallState,
  { remember }: Permissions.Asks,
  targets: Gate.GateCall["targets"],
  grants: ReadonlyArray<Grant.Grant> | StateStoreError,
  now: number
): Grant.Grant | undefined => {
  const { agentPath, tool: { name: tool } } = call.gateCall!
  if (
    "operation" in grants || remember === "call" || grants.length === 0 ||
    !Revisions.isCurrent(engine.handlers, call.tool!)
  ) return undefined
  const about = { agentPath, tool, revision: Revisions.of(call.tool!), targets }
  return grants.find((it) => !engine.revoked.has(it.id) && Grant.covers(it, about, now))
}

const claimsOf = (engine: Engine, process: ProcessState, call: CallState): End | ReadonlyArray<Claim> => {
  const { tool: { name: tool } } = call.gateCall!
  const limits = Gate.orRefused(
    "Rules",
    () => engine.rules.claims(tool, { batch: process.batch.key, principal: engine.principal })
  )
  if ("_tag" in limits) return denied(limits)!
  const key = Gate.orRefused("Dedupe", () =>
    engine.dedupe.claim(call.gateCall!, {
      rule: call.rules!.dedupe,
      batch: process.batch.key,
      told: call.told,
      awaited: isAwaited(engine, process, call),
      fires: process.fires === tool,
      anew: call.anew === true,
      agent: engine.parent && engine.unique
    }))
  if (key === undefined) return limits
  return key._tag === "Key" ? limits.length === 0 ? [key] : [key, ...limits] : denied(key)!
}

const refusedClaim = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  refused: Refused
): Dispatched => {
  if (refused._tag !== "KeyTaken") {
    return decided(
      outOfOrder(engine, process, call) ??
        denied(Gate.orRefused("Rules", () => engine.rules.explain(call.call.name, refused)))!
    )
  }
  // the store may not know yet that the other one is over
  const pending = refused.running ? engine.store.pendingKey(refused.reservation) : undefined
  if (pending === "release") return decided(unavailable({ operation: "settle" }))
  const leader = refused.running ? engine.leaders.get(refused.reservation) : undefined
  const found = duplicate(engine, process, call, refused, leader !== undefined && leader.outcome === undefined)
  // one that has no key of its own anew has none either
  if (found._tag === "Anew" && call.anew !== true) return anew
  const { owner: of } = refused
  const running = refused.running && pending !== "keep"
  if (found._tag === "Refused" || found._tag === "Anew") return decided(denied({ _tag: "DuplicateCall", of, running })!)
  // what another call has is only for those who may call now
  const end = outOfOrder(engine, process, call)
  if (end !== undefined) return decided(end)
  const question = unanswered(call)
  return question !== undefined && call.refused !== undefined
    ? decided(denied(call.refused)!)
    : { _tag: "Shares", share: found._tag === "Joins" ? leader! : found, question }
}

/**
 * What a call gets whose key another one has; `joinable` if that one runs here.
 *
 * @category stages
 * @since 0.1.0
 */
export const duplicate = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  taken: KeyTaken,
  joinable: boolean
): Duplicate => {
  try {
    return engine.dedupe.duplicate(call.gateCall!, taken, {
      told: call.told,
      awaited: isAwaited(engine, process, call),
      wanted: call.sharing === true,
      joinable,
      differs: (targets) => Targets.differ(engine, call, targets),
      isRead: call.rules!.conditionals.length > 0
    })
  } catch {
    return { _tag: "Refused" }
  }
}

/**
 * What becomes of what a call has reserved.
 *
 * @category stages
 * @since 0.1.0
 */
export const settlement = (
  engine: Engine,
  call: CallState,
  outcome: ToolOutcome,
  stillRunning: boolean
): Settlement => {
  const started = outcome.startedAt !== undefined
  try {
    const options = { stillRunning, wanted: call.isWanted === true }
    return { ...engine.dedupe.settlement(call.gateCall!, outcome, options), started }
  } catch {
    return { started, key: stillRunning ? "running" : "release", windowMillis: 0, value: undefined }
  }
}

const isAwaited = (engine: Engine, process: ProcessState, call: CallState): boolean =>
  call.rules!.mayBeAwaited && RuleSet.isAwaited(engine.rules.current(), process.history, call.call.name)

/**
 * A standing permission is looked at once more: it may have been taken back. One
 * that has expired meanwhile holds, for the call was let through before.
 */
const withdrawn = (
  engine: Engine,
  { approved, grant, isOwnGrant, tool }: CallState,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined
): ToolRefusal | undefined => {
  if ((approved || grant !== undefined) && !Revisions.isCurrent(engine.handlers, tool!)) {
    return { _tag: "PermissionDenied", by: "user", reason: "the tool is not what it was any more" }
  }
  if (grant === undefined) return undefined
  const revoked: ToolRefusal = { _tag: "PermissionDenied", by: "user", reason: "revoked" }
  if (engine.revoked.has(grant.id)) return revoked
  // the store may not have noted yet what was answered just now
  if (isOwnGrant || grants === undefined) return undefined
  if ("operation" in grants) return { _tag: "StoreUnavailable", operation: grants.operation }
  return grants.some((it) => it.id === grant.id) ? undefined : revoked
}

/**
 * Start: the gates whose answer may have changed while the call waited.
 *
 * @category stages
 * @since 0.1.0
 */
export const recheck = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  grants: ReadonlyArray<Grant.Grant> | StateStoreError | undefined,
  now: number
): End | undefined =>
  call.decided ??
    turn(process, call, now) ??
    denied(Permissions.check(call.agent.permissions, call.gateCall!)) ??
    blocked(process, call) ??
    outOfOrder(engine, process, call) ??
    denied(Targets.changed(call, now)) ??
    denied(withdrawn(engine, call, grants))
