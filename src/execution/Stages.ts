/**
 * The life of a call up to its start: which gates it passes, in which order.
 *
 * Arrival looks at every call of a wave before anything runs; Dispatch reserves
 * when the call's run begins; Start looks once more, holding all permits. The
 * first gate that says no decides.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../internal/detached.ts"
import * as Dedupe from "../policy/Dedupe.ts"
import type { GateCall } from "../policy/Gate.ts"
import * as Guards from "../policy/Guards.ts"
import * as Permissions from "../policy/Permissions.ts"
import * as Rules from "../policy/Rules.ts"
import * as RuleSet from "../policy/RuleSet.ts"
import * as Grant from "../store/Grant.ts"
import type { Claim, Refused } from "../store/StateStore.ts"
import { heartbeatArgument, type RegisteredTool, type Registry } from "../ToolHandlers.ts"
import type { ParameterIssue, ToolRefusal } from "../ToolRefusal.ts"
import type { End } from "./Attempt.ts"
import type { CallState } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import * as Forks from "./Forks.ts"
import type { Reserved } from "./Ledger.ts"
import * as SharedOutcome from "./SharedOutcome.ts"

/**
 * Gates 1 and 2: is the process cancelled, is its turn over?
 *
 * @category stages
 * @since 0.1.0
 */
export const turn = (process: ProcessState, call: CallState, now: number): End | undefined => {
  if (process.cancelled !== undefined) return { _tag: "Cancelled", started: false, reason: process.cancelled }
  return denied(process.budget.check(now, call.counted))
}

const denied = (reason: ToolRefusal | undefined): End | undefined =>
  reason === undefined ? undefined : { _tag: "Denied", reason }

const invalid = (issues: ReadonlyArray<ParameterIssue>): End => denied({ _tag: "InvalidParameters", issues })!

/**
 * Arrival: gates 1 to 5. Decides the call (`decided`) or fills in its tool and
 * parameters, at once or, where a schema waits for something, by the effect it gives.
 *
 * @category stages
 * @since 0.1.0
 */
export const arrive = (
  engine: Engine,
  process: ProcessState,
  registry: Registry,
  call: CallState,
  now: number
): Effect.Effect<void> | undefined => {
  const params = takeHeartbeat(call)
  // it may be cancelled already, while an earlier one was decoded
  call.decided ??= turn(process, call, now)
  if (call.decided !== undefined) return undefined
  const tool = registry.get(call.call.name)
  if (tool === undefined) {
    const available = Array.from(registry.values()).filter((it) => Permissions.sees(call.agent.permissions, it)).map((
      it
    ) => it.name)
    call.decided = denied({ _tag: "ToolNotFound", available })
    return undefined
  }
  if (call.call.malformed !== undefined) {
    const { message, text } = call.call.malformed
    const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text
    call.decided = invalid([{ path: "", message: `They are not JSON (${message}): ${shown}` }])
    return undefined
  }
  if (tool.recursive && engine.agentPath.length >= Forks.maxDepth) {
    call.decided = denied({ _tag: "DepthExceeded", max: Forks.maxDepth })
    return undefined
  }
  call.tool = tool
  call.rules = engine.rules.current().forTool(tool.name)
  return admit(engine, process, call, params, now)
}

/**
 * Gates 4 and 5 with the arguments of a call, the model's or those that a person
 * edited: at once, or by an effect.
 *
 * @category stages
 * @since 0.1.0
 */
export const admit = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  params: unknown,
  now: number
): Effect.Effect<void> | undefined => {
  const tool = call.tool!
  const args = withPrefilled(call.rules!.prefilled, params)
  const decoding = decode(tool, args)
  // schemas without services and asynchronous steps are done already
  if (Exit.isExit(decoding)) return arrived(engine, process, call, args, decoding, now)
  return Effect.flatMap(
    Detached.within(Effect.provideContext(decoding, tool.context), patience(process, now)),
    (exit) => arrived(engine, process, call, args, exit ?? Exit.fail([undecoded]), now) ?? Effect.void
  )
}

/** The rest of Arrival, once the parameters are decoded: what the call is about, where the policy asks, and gate 5. */
const arrived = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  args: unknown,
  exit: Exit.Exit<unknown, unknown>,
  now: number
): Effect.Effect<void> | undefined => {
  if (call.decided !== undefined) return undefined
  if (Exit.isFailure(exit)) {
    // a value too deeply nested for the decoder ends in a defect, like a decoder that is broken
    const issues = Option.getOrElse(
      Cause.findErrorOption(exit.cause),
      () => [Cause.squash(exit.cause) instanceof RangeError ? unreadable : undecodable]
    )
    call.decided = invalid(issues as ReadonlyArray<ParameterIssue>)
    return undefined
  }
  const params = exit.value
  const targets = Permissions.needsTargets(call.agent.permissions, call.tool!)
    ? lookUp(process, () => call.tool!.targets(params), now)
    : none
  const needsApproval = wantsApproval(process, call, params, now)
  const known = (targets: GateCall["targets"], needsApproval: unknown) =>
    // a question without an answer is one for people
    judge(engine, process, call, { args, params, targets, needsApproval: needsApproval !== false })
  if (!Effect.isEffect(targets) && !Effect.isEffect(needsApproval)) return known(targets, needsApproval)
  return Effect.map(Effect.all([found(targets), found(needsApproval)], { concurrency: 2 }), (it) => known(...it))
}

const found = <A>(answer: A | Effect.Effect<A>): Effect.Effect<A> =>
  Effect.isEffect(answer) ? answer : Effect.succeed(answer)

/** What the tool itself says of the call; anything but false is a yes. */
const wantsApproval = (
  process: ProcessState,
  { call, tool }: CallState,
  params: unknown,
  now: number
): unknown | Effect.Effect<unknown> => {
  const { context, needsApproval = false } = tool!
  if (typeof needsApproval !== "function") return needsApproval
  return lookUp(process, () => {
    const answer = needsApproval(params as never, { toolCallId: call.id, messages: [] })
    return Effect.isEffect(answer) ? Effect.provideContext(answer, context) : answer
  }, now)
}

/** Gate 5, now that everything is known of the call. */
const judge = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  known: Pick<GateCall, "args" | "params" | "targets" | "needsApproval">
): undefined => {
  call.gateCall = {
    ...known,
    call: call.call,
    tool: call.tool!,
    principal: engine.principal,
    agentPath: call.agent.agentPath,
    batch: process.batch.id,
    process: process.id
  }
  call.decided ??= denied(Permissions.check(call.agent.permissions, call.gateCall))
}

/** Milliseconds that decoding, or finding what a call touches, may take: never longer than the turn. */
const patience = (process: ProcessState, now: number): number => Math.min(10_000, Math.max(0, process.budget.left(now)))

const undecodable: ParameterIssue = { path: "", message: "They could not be decoded" }

const undecoded: ParameterIssue = { path: "", message: "They could not be decoded in time" }

const unreadable: ParameterIssue = { path: "", message: "They are nested too deeply to be read" }

const incomparable: ParameterIssue = { path: "", message: "They cannot be compared with those of other calls" }

const decode = (tool: RegisteredTool, args: unknown): Effect.Effect<unknown, ReadonlyArray<ParameterIssue>> => {
  try {
    return tool.decode(args)
  } catch {
    return Effect.fail([unreadable])
  }
}

const isObject = (params: unknown): params is object =>
  typeof params === "object" && params !== null && !Array.isArray(params)

/** Adds the host's own arguments, which override the model's. */
const withPrefilled = (prefilled: RuleSet.ToolRules["prefilled"], params: unknown): unknown =>
  prefilled === undefined || !(isObject(params) || params === undefined || params === null)
    ? params
    : { ...params, ...prefilled }

/** Takes the control argument out, whatever its value is. */
const takeHeartbeat = (call: CallState): unknown => {
  const { params } = call.call
  if (!isObject(params) || !Object.hasOwn(params, heartbeatArgument)) return params
  const { [heartbeatArgument]: flag, ...rest } = params as Record<string, unknown>
  call.heartbeat = flag === true
  return rest
}

/**
 * What becomes of a call at Dispatch: it is decided, waits for another call's
 * outcome, or goes on to its permits.
 *
 * @category models
 * @since 0.1.0
 */
export type Dispatched =
  | { readonly _tag: "Decided"; readonly end: End }
  | { readonly _tag: "Joined"; readonly leader: CallState }
  | { readonly _tag: "Admitted" }
  /** Everything but a person's permission is there. */
  | { readonly _tag: "Asks"; readonly question: Permissions.Asks }

const admitted: Dispatched = { _tag: "Admitted" }
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
  reserved: Reserved | undefined,
  now: number
): Dispatched => {
  if (reserved !== undefined) {
    if ("operation" in reserved) {
      return decided(
        call.decided ?? denied({ _tag: "GuardRejected", guard: "the state store", reason: "it cannot be reached" })!
      )
    }
    if ("_tag" in reserved) return refusedClaim(engine, process, call, reserved, now)
    call.reservation = reserved
    if (engine.dedupe.inFlight === "join") engine.leaders.set(reserved.id, call)
  }
  const end = call.decided ?? outOfOrder(engine, process, call)
  if (end !== undefined) return decided(end)
  const question = call.approved ? undefined : asks(call)
  if (question === undefined) return admitted
  return call.refused === undefined ? { _tag: "Asks", question } : decided(denied(call.refused)!)
}

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
  const found = lookUp(process, () => tool.resources(call.gateCall!.params), now)
  return Effect.isEffect(found) ? Effect.map(found, (keys) => keys ?? alone) : found ?? alone
}

/** What a tool tells of a call, at once or by an effect; `undefined` where it fails, throws or takes too long. */
const lookUp = <A>(
  process: ProcessState,
  question: () => A | Effect.Effect<A>,
  now: number
): A | undefined | Effect.Effect<A | undefined> => {
  try {
    const found = question()
    if (!Effect.isEffect(found)) return found
    return Effect.map(
      Detached.within(found, patience(process, now)),
      (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : undefined
    )
  } catch {
    return undefined
  }
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
  if (call.rules!.isFree) return undefined
  const set = engine.rules.current()
  return denied(Rules.check(set, process.history.before(set, call.history, call.index), call.gateCall!))
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
 * The standing permission that lets a call through, of those that its principal has.
 *
 * @category stages
 * @since 0.1.0
 */
export const grantFor = (
  engine: Engine,
  call: CallState,
  { remember }: Permissions.Asks,
  targets: GateCall["targets"],
  grants: ReadonlyArray<Grant.Grant>,
  now: number
): Grant.Grant | undefined => {
  const { agentPath, tool: { name: tool } } = call.gateCall!
  if (remember === "call") return undefined
  return grants.find((it) => !engine.revoked.has(it.id) && Grant.covers(it, { agentPath, tool, targets }, now))
}

/** Whether a person would have to be asked now; where the store cannot tell at once, yes. */
const wouldAsk = (engine: Engine, call: CallState, now: number): boolean => {
  const question = asks(call)
  if (question === undefined) return false
  const grants = engine.store.grants(engine.principal, now)
  return Effect.isEffect(grants) ||
    grantFor(engine, call, question, call.gateCall!.targets, grants, now) === undefined
}

const claimsOf = (engine: Engine, process: ProcessState, call: CallState): End | ReadonlyArray<Claim> => {
  const { principal, tool: { name: tool } } = call.gateCall!
  const limits = Rules.claims(call.rules!, { batch: process.batch.key, principal, tool })
  const awaited = process.fires === tool ||
    (call.rules!.mayBeAwaited && RuleSet.isAwaited(engine.rules.current(), process.history, tool))
  try {
    const { dedupe: rule } = call.rules!
    const key = Dedupe.claim(engine.dedupe, call.gateCall!, { rule, awaited, agent: engine.parent && engine.unique })
    return key === undefined ? limits : limits.length === 0 ? [key] : [key, ...limits]
  } catch (error) {
    return invalid([error instanceof RangeError ? unreadable : incomparable])
  }
}

const refusedClaim = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  refused: Refused,
  now: number
): Dispatched => {
  if (refused._tag !== "KeyTaken") {
    return decided(
      outOfOrder(engine, process, call) ?? denied(Rules.explain(call.rules!, call.call.name, refused))!
    )
  }
  const duplicate = decided(denied({ _tag: "DuplicateCall", of: refused.owner, running: refused.running })!)
  // another call's result is only for those who may call now, without asking
  if (outOfOrder(engine, process, call) !== undefined || wouldAsk(engine, call, now)) return duplicate
  if (refused.running) {
    const leader = engine.leaders.get(refused.reservation)
    return engine.dedupe.inFlight === "join" && leader !== undefined ? { _tag: "Joined", leader } : duplicate
  }
  const kept = refused.value as Dedupe.Kept | undefined
  return engine.dedupe.onDuplicate === "replay" && kept !== undefined && isWhole(kept, process, call.rules!)
    ? decided(SharedOutcome.replay(kept.outcome, call.heartbeat))
    : duplicate
}

/** Whether an earlier outcome still has what is asked of it: an artifact is for its batch, and not for conditions. */
const isWhole = (
  { batch, outcome }: Dedupe.Kept,
  process: ProcessState,
  { conditionals }: RuleSet.ToolRules
): boolean =>
  outcome._tag !== "Succeeded" || outcome.output._tag !== "Artifact" ||
  (batch === process.batch.id && conditionals.length === 0)

/** A standing permission is looked at once more; there is no second question. */
const withdrawn = (engine: Engine, { grant }: CallState, now: number): ToolRefusal | undefined => {
  if (grant === undefined) return undefined
  if (engine.revoked.has(grant.id)) return { _tag: "PermissionDenied", by: "user", reason: "revoked" }
  return Grant.isOpen(grant, now) ? undefined : { _tag: "PermissionDenied", by: "user", reason: "it has expired" }
}

/**
 * Start: the gates whose answer may have changed while the call waited.
 *
 * @category stages
 * @since 0.1.0
 */
export const recheck = (engine: Engine, process: ProcessState, call: CallState, now: number): End | undefined =>
  call.decided ??
    turn(process, call, now) ??
    denied(Permissions.check(call.agent.permissions, call.gateCall!)) ??
    blocked(process, call) ??
    outOfOrder(engine, process, call) ??
    denied(withdrawn(engine, call, now))
