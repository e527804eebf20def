/**
 * Settle: gives a call its outcome, once, and then does everything that depends on it in order: output, history,
 * reservation, event, joined calls, and the permits last.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { clip } from "../../../internal/clip.ts"
import { isDone } from "../../../internal/exitOf.ts"
import * as Unseen from "../../../internal/unseen.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import * as ToolContent from "../../vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import { denied, type End } from "../data/CallEnd.ts"
import * as State from "../state/State.ts"
import * as CallGates from "./arrive/CallGates.ts"
import * as Targets from "./arrive/Targets.ts"
import type { Attempt } from "./attempt/Attempt.ts"
import type { Call } from "./Call.ts"
import * as CallClaims from "./dispatch/CallClaims.ts"
import * as SharedOutcome from "./dispatch/SharedOutcome.ts"
import * as SharedHistory from "./SharedHistory.ts"
import * as StartNotes from "./start/StartNotes.ts"
import * as TakenOver from "./TakenOver.ts"
import type { WaveHost } from "./WaveHost.ts"

/** Settles a call. `fiber` is given if its handler still runs. */
export const settle = (wave: WaveHost, call: Call, end: End, fiber?: Fiber.Fiber<unknown, unknown>): void => {
  if (call.isSettled || call.phase._tag === "Doubted") return
  if (call.record?.isAtRisk === true) return doubt(wave, call, end, fiber)
  settled(wave, call, end, fiber)
}

/** Checks first whether the call still belongs to this process; until then its end is not reported. */
const doubt = (wave: WaveHost, call: Call, end: End, fiber: Fiber.Fiber<unknown, unknown> | undefined): void => {
  const { attempt, joined: leader, waiting } = call
  // nothing of a call that did not begin may have happened here, and nobody waits for its end
  const mayWait = attempt === undefined && call.unless === undefined && end._tag !== "Cancelled"
  const isDropped = end._tag === "Cancelled" && call.decided === end && !wave.isSuspended(call)
  call.phase = { _tag: "Doubted", leader, attempt, mayWait, isDropped }
  call.decided ??= end
  call.waiting = undefined
  wave.detach(Effect.map(TakenOver.endOf(wave, call, end), (it) => {
    // its turn may have come meanwhile
    if (!call.isSettled) settled(wave, call, it, fiber)
  }))
  waiting?.interruptUnsafe()
}

const settled = (
  wave: WaveHost,
  call: Call,
  end: End,
  fiber: Fiber.Fiber<unknown, unknown> | undefined
): void => {
  const { attempt, joined, reservation, waiting } = call
  const now = wave.now()
  // a call that started in an earlier life and does not run again was not refused
  const own = attempt === undefined ? call.unless ?? end : isUnknown(wave, call) ? unknown : end
  const outcome = outcomeOf(call, attempt, withNote(call, fitted(wave, call, own)), now)
  call.phase = { _tag: "Settled", outcome, attempt }
  const ran = attempt ?? joined?.attempt
  if (end._tag === "Cancelled" && isSuspended(wave, call)) {
    wave.facts?.report({
      _tag: "Suspended",
      at: now,
      reason: end.reason,
      outcome,
      isStarted: attempt !== undefined
    }, call)
  } else reportOutcome(wave, call, outcome, now, ran, joined)
  if (attempt !== undefined && !attempt.isPaused) wave.process.budget.execute(-1, now)
  call.waiting = undefined
  waiting?.interruptUnsafe()
  wave.engine.conversations?.received(wave.process, call, outcome, ran)
  // later calls are checked against this, so it is done before a permit goes to one of them
  mark(wave, call, outcome, ran)
  const succeeded = outcome._tag === "Succeeded"
    ? CallClaims.markOf(wave, call, valueOf(outcome.output, ran))
    : undefined
  const behind = wave.stop.isOn ? wave.stop.endAt(outcome, wave.offset + outcome.index) : none
  const { leaders, store } = wave.engine
  if (reservation !== undefined && leaders.size > 0) leaders.delete(reservation.id)
  const noted = reservation === undefined
    ? succeeded === undefined
      ? Effect.void
      : SharedHistory.note(wave.engine, wave.process, call.rules!.notedIn, succeeded, now)
    : store.settle(
      reservation,
      CallClaims.settlement(wave, call, outcome, fiber !== undefined, succeeded),
      // a call that ended in an earlier life counts from that time
      call.past?.endedAt ?? now,
      wave.patienceAt(now),
      call
    )
  const told = call.consent.askedGates === undefined
    ? noted
    : Effect.flatMapEager(noted, () => CallGates.settle(wave, call, outcome))
  if (isDone(told)) conclude(wave, call, outcome, fiber)
  // nothing was changed: the store gets the message in order, and the call does not wait for it
  else if (
    told === noted && store.outlives && call.tool?.readOnly === true && fiber === undefined && succeeded === undefined
  ) {
    wave.detach(told)
    conclude(wave, call, outcome, fiber)
  } // on any exit: a call that is not concluded would block its wave forever
  else wave.detach(Effect.onExit(told, () => Effect.sync(() => conclude(wave, call, outcome, fiber))))
  for (const [place, calls] of behind) place.skipBehind(calls)
}

const none: ReadonlyArray<never> = []

const unknown: End = { _tag: "Unknown" }

/** Whether the lease was lost, so other calls may have held its claims while it ran. Its end is then unknown. */
const isUnknown = (wave: WaveHost, call: Call): boolean => {
  const { attempt, reservation } = call
  if (attempt === undefined || reservation?.leaseMillis === undefined) return false
  if (wave.engine.store.holds(reservation)) return false
  attempt.lose()
  return true
}

/** Fits the output of a shared end to this call. */
const fitted = (wave: WaveHost, call: Call, end: End): End => {
  if (end._tag !== "Succeeded" || end.replayOf === undefined) return end
  const { attempt, gateCall } = call.joined ?? call
  const isForeign = attempt !== undefined && gateCall !== undefined &&
    (!call.told || gateCall.batch !== wave.process.batch.id)
  return { ...end, output: SharedOutcome.fit(end.output, wave.outputRoom(), isForeign ? attempt : undefined) }
}

/** Adds what approvers say to the model. */
const withNote = ({ consent: { answer } }: Call, end: End): End => {
  if (answer?.note === undefined) return end
  const note = `\n\nNote of the approver: ${answer.note}`
  if (end._tag === "Failed") return { ...end, modelText: end.modelText + note }
  if (end._tag !== "Succeeded") return end
  const { content, modelText } = end.output
  const more = content === undefined ? {} : { content: [...content, ToolContent.text(note.trim())] }
  return { ...end, output: { ...end.output, modelText: modelText + note, ...more } }
}

const outcomeOf = (call: Call, attempt: Attempt | undefined, end: End, now: number): ToolOutcome.ToolOutcome => {
  const { call: { id: callId, name: tool }, consent: { grant }, index, queuedAt } = call
  const granted = end._tag === "Succeeded" && grant !== undefined ? { grant } : undefined
  if (attempt === undefined) {
    return { callId, tool, index, attempt: 0, queuedAt, commits: 0, ...end, ...granted } as ToolOutcome.ToolOutcome
  }
  const { commits, number, startedAt } = attempt
  const duration = now - startedAt
  if (end._tag === "Succeeded" && granted === undefined && end.replayOf === undefined) {
    const { _tag, hasContinueRule, output, requestsContinuation } = end
    // one literal for speed: most calls end this way
    return {
      _tag,
      callId,
      tool,
      index,
      attempt: number,
      queuedAt,
      startedAt,
      duration,
      commits,
      output,
      requestsContinuation,
      hasContinueRule
    } as ToolOutcome.ToolOutcome
  }
  const ran = { callId, tool, index, attempt: number, queuedAt, startedAt, duration, commits }
  return { ...ran, ...end, ...granted } as ToolOutcome.ToolOutcome
}

const reportOutcome = (
  wave: WaveHost,
  call: Call,
  outcome: ToolOutcome.ToolOutcome,
  at: number,
  ran: Attempt | undefined,
  joined: Call | undefined
): void => {
  const { facts } = wave
  if (facts === undefined) return
  if (outcome._tag === "Denied") facts.report({ _tag: "Decided", at, reason: outcome.reason }, call)
  const { attempt } = call
  const unseen = attempt?.unseen && Unseen.inWords(attempt.unseen)
  if (unseen !== undefined) {
    const message = `The result holds invisible text: ${unseen}`
    facts.report({ _tag: "Reported", at, report: { _tag: "ToolLog", level: "warn", message } }, call)
  }
  facts.report({
    _tag: "Settled",
    at,
    outcome,
    value: attempt?.value,
    unseen,
    routes: routesOf(wave, call, outcome, ran),
    sharedWith: joined?.trace?.current
  }, call)
}

/** Whether a cancelled call may be resumed. It then has no recorded outcome. */
const isSuspended = (wave: WaveHost, call: Call): boolean => {
  if (wave.isSuspended(call)) call.consent = { ...call.consent, isSuspended: true }
  if (call.consent.isSuspended !== true) return false
  wave.tally.hasSuspended = true
  State.suspend(wave.process.open)
  return true
}

const mark = (
  wave: WaveHost,
  call: Call,
  outcome: ToolOutcome.ToolOutcome,
  ran: Attempt | undefined
): void => {
  const { batch, budget } = wave.process
  if (outcome.startedAt === undefined && call.counted) budget.giveBack()
  if (outcome._tag === "Succeeded") {
    if (!wave.options.wholeOutputs) {
      batch.outputChars += outcome.output.modelText.length - (call.attempt?.heldChars ?? 0)
      if (outcome.output.content !== undefined) batch.fileChars += ToolContent.fileChars(outcome.output.content)
    }
    remember(wave, call, outcome.output, ran)
  }
  if (call.undo.note !== undefined) wave.note(StartNotes.takeBack(wave, call))
  State.block(wave.process, outcome)
}

/** Records a success for the rules, with the whole output even if only a part of it was kept. */
const remember = (wave: WaveHost, call: Call, output: ToolOutcome.Output, ran: Attempt | undefined): void => {
  const { rules: { current } } = wave.engine
  const routes = call.past?.routes
  wave.process.history.record(current(), call.history, call.index, call.call.name, valueOf(output, ran), routes)
}

const valueOf = (output: ToolOutcome.Output, ran: Attempt | undefined): unknown =>
  ran !== undefined ? ran.value : output._tag === "Artifact" ? undefined : output.value

/** The routes of a success, for the record: the recorded output may not be enough to compute them again. */
const routesOf = (
  wave: WaveHost,
  { call: { name }, record, rules }: Call,
  outcome: ToolOutcome.ToolOutcome,
  ran: Attempt | undefined
): RuleSet.Success["routes"] | undefined =>
  record === undefined || outcome._tag !== "Succeeded" || rules === undefined || rules.routes.length === 0
    ? undefined
    : RuleSet.success(wave.engine.rules.current(), name, valueOf(outcome.output, ran)).routes

const conclude = (
  wave: WaveHost,
  call: Call,
  outcome: ToolOutcome.ToolOutcome,
  fiber: Fiber.Fiber<unknown, unknown> | undefined
): void => {
  const { pools } = wave.engine
  // reads made while a mutating call ran are stale, too; the settlement of its reservation says so
  if (call.reservation === undefined && (call.attempt !== undefined || call.recounts === "unknown")) written(wave, call)
  if (fiber !== undefined) linger(wave, call, fiber)
  wave.facts?.report({ _tag: "Concluded", at: wave.now(), outcome, dropped: call.observed.dropped ?? 0 }, call)
  for (const follower of call.peers.followers ?? none) {
    if (!follower.isSettled) follow(wave, call, outcome, follower)
  }
  wave.tally.unsettled--
  wave.watcher.settled(call)
  // permits last: they start the next call, which must find everything above done
  if (fiber === undefined) pools.leave(call)
  // a handler that ignores the loss of its lease keeps its permits: no call takes its place here
  else if (call.attempt?.isLost !== true) pools.releasePermits(call)
  call.forget()
  wave.watcher.freed()
  call.over()
}

/** Gives a joined call the same outcome, or dispatches it separately. */
const follow = (wave: WaveHost, call: Call, outcome: ToolOutcome.ToolOutcome, follower: Call): void => {
  if (!isShared(wave, call, outcome, follower)) return follower.driver.redispatch(follower)
  const reason = Targets.changedBy(follower, call, wave.now())
  follower.driver.settle(follower, denied(reason) ?? SharedOutcome.join(outcome, follower.heartbeat))
}

/** Whether the outcome belongs to the execution, rather than to what stopped this call alone. */
const isShared = (wave: WaveHost, call: Call, outcome: ToolOutcome.ToolOutcome, follower: Call): boolean => {
  if (outcome.startedAt === undefined || outcome._tag === "Cancelled") return false
  if (outcome._tag !== "TimedOut" || follower.driver === call.driver) return true
  switch (outcome.which) {
    case "turn":
      return follower.gateCall!.process === wave.process.id
    case "tool":
      return outcome.limitMillis >= wave.toolLimit(call.tool!)
    case "idle":
      return true
  }
}

const written = (wave: WaveHost, call: Call): void => {
  if (call.tool?.readOnly !== false) return
  wave.note(wave.engine.store.mutated(wave.engine.principal, undefined, wave.patience, call))
}

/**
 * Handles a handler that still runs: its resource keys and dedupe key stay taken until it ends. Calls that need the
 * same resources wait for its clean-up, up to the grace period.
 */
const linger = (wave: WaveHost, call: Call, fiber: Fiber.Fiber<unknown, unknown>): void => {
  const { graceMillis, orphans, pools, store } = wave.engine
  const { call: { id: callId, name: tool }, reservation, resources } = call
  wave.tally.lingering++
  wave.facts?.report({ _tag: "Orphaned", at: wave.now() }, call)
  const because = `call ${clip(callId, 100)} of "${tool}" was stopped but still runs, and both use the same resource`
  const blocking = resources.length === 0 ? undefined : wave.detach(Effect.andThen(
    Effect.sleep(graceMillis),
    Effect.sync(() => pools.block(call, because))
  ))
  orphans.add(fiber, { callId, tool, since: wave.now() }, () => {
    blocking?.interruptUnsafe()
    wave.tally.lingering--
    pools.leave(call)
    wave.facts?.report({ _tag: "OrphanEnded", at: wave.now() }, call)
    if (reservation !== undefined) wave.note(store.release(reservation, wave.now(), wave.patience, call))
    written(wave, call)
    wave.watcher.freed()
  })
  wave.detach(Effect.andThen(Effect.yieldNow, Effect.sync(() => orphans.confirm(fiber))))
}
