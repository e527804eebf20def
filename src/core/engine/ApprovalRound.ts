/**
 * Asking people about a call, and waiting for what they say.
 *
 * The turn's clock stands still while a question is open; interruption withdraws
 * the question. Nothing of the call runs in the fiber of whoever answers.
 */
import * as Effect from "effect/Effect"
import type { Of } from "../facts/Fact.ts"
import type * as Approvals from "../gates/Approvals.ts"
import type { GateCall } from "../gates/Gate.ts"
import type * as Permissions from "../gates/Permissions.ts"
import type { Given, Grant } from "../vocabulary/Grant.ts"
import type { Call } from "./Call.ts"
import * as Revisions from "./Revisions.ts"
import type { WaveState } from "./WaveState.ts"

/** What a person is asked about a call. */
export interface Question extends Permissions.Asks {
  readonly preview?: Approvals.Preview | undefined
  /** What it is about, if not what the call was judged by. */
  readonly targets?: GateCall["targets"]
}

/**
 * What was answered; `Unrecorded`: nobody was asked, since the question could not be put on
 * record, and the call may change things.
 */
export type Answer = Approvals.Resolution | { readonly _tag: "Unrecorded" }

/**
 * Asks a person and waits for the answer. Where nobody is there, the answer is no at
 * once.
 * The turn's clock stands still meanwhile; interruption withdraws the question.
 */
export const ask = (wave: WaveState, call: Call, question: Question): Effect.Effect<Answer> =>
  Effect.suspend(() => {
    const { people } = wave.process
    const isOnRecord = call.resumed?.answers !== undefined
    if (people === undefined && !isOnRecord) return Effect.succeed<Approvals.Resolution>(nobody(question))
    const { agentPath, args, batch, principal, process, tool: { class: kind, name: tool } } = call.gateCall!
    const { call: { id: callId }, index } = call
    const { targets = call.gateCall!.targets } = question
    // an answer about unknown targets, or about none, is not remembered: it would allow everything
    const isKnown = targets !== undefined && (targets.length > 0 || !call.tool!.declaresTargets)
    const { question: open } = call.resumed ?? {}
    const about: Approvals.NewRequest = {
      preview: undefined,
      ...question,
      ...open,
      remember: isKnown ? question.remember : "call",
      agentPath,
      args,
      batch,
      callId,
      index,
      class: kind,
      isRunning: call.attempt !== undefined,
      principal,
      process,
      revision: Revisions.of(call.tool!),
      targets: targets ?? [],
      tool
    }
    const said = isOnRecord ? onRecord(call, about) : undefined
    if (said !== undefined) return Effect.succeed(said)
    if (people === undefined) return Effect.succeed<Approvals.Resolution>(nobody(question))
    // whatever it is asked later is another question
    if (open !== undefined) call.resumed = { ...call.resumed, question: undefined }
    const diff = question.preview?._tag === "Diff" ? question.preview.diff : undefined
    const put = (request: Approvals.ApprovalRequest) => {
      const { id: requestId } = request
      wave.facts?.report({ _tag: "Presented", at: wave.now(), requestId, why: question.why, diff }, call)
      let said: Approvals.Resolution | undefined
      const told = (resolution: Approvals.Resolution) => {
        said = resolution
        remember(wave, resolution)
        if (resolution._tag === "Approved" && resolution.grant === undefined) allowOnce(wave, call, request)
      }
      // it may have been answered although its call is over by the time that it could go on
      return Effect.ensuring(
        people.submit(request, told),
        Effect.sync(() => {
          wave.facts?.report({ _tag: "Answered", at: wave.now(), requestId, ...answerOf(said) }, call)
          const grant = grantOf(said)
          if (grant !== undefined) wave.facts?.report({ _tag: "Granted", at: grant.grantedAt, grant }, call)
        })
      )
    }
    const asked = Effect.flatMap(people.request(about), (request): Effect.Effect<Answer> => {
      if (request === undefined) return Effect.succeed(nobody(question))
      const { journal } = wave.engine
      if (call.record === undefined || journal === undefined) return put(request)
      const withdraw = Effect.sync(() =>
        wave.facts?.report({ _tag: "Withdrawn", at: wave.now(), requestId: request.id }, call)
      )
      wave.facts?.report({ _tag: "Asked", at: wave.now(), request }, call)
      // a crash must not forget what somebody has seen
      return Effect.flatMap(
        Effect.onInterrupt(journal.flush, () => withdraw),
        (isWritten) => isWritten || call.tool!.readOnly ? put(request) : Effect.as(withdraw, unrecorded)
      )
    })
    begin(wave)
    return Effect.ensuring(asked, Effect.sync(() => end(wave)))
  })

/** The answer to a question where nobody is there. */
export const nobody = ({ why }: Permissions.Asks): Extract<Approvals.Resolution, { readonly _tag: "Denied" }> => ({
  _tag: "Denied",
  by: "noApprover",
  reason: why
})

/** An effect that ends with the call, also where whoever waits for it cannot be interrupted. */
export const withCall = <A>(wave: WaveState, call: Call, effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.callback<A>((resume) => {
    const fiber = Effect.runForkWith(wave.context)(effect)
    call.waiting = fiber
    fiber.addObserver((exit) => {
      call.waiting = undefined
      resume(exit)
    })
    return Effect.sync(() => fiber.interruptUnsafe())
  })

// Utilities

const unrecorded: Answer = { _tag: "Unrecorded" }

/** What people have said before a crash, where they would be shown the same now. */
const onRecord = ({ record, resumed }: Call, about: Approvals.NewRequest): Approvals.Resolution | undefined => {
  const shown = record!.shown(about)
  const again = about.why === resumed!.why
  return resumed!.answers!.find((it) => it.shown === shown && it.again === again)?.resolution
}

/** What ended a request, as it is reported. */
const answerOf = (
  resolution: Approvals.Resolution | undefined
): Omit<Of<"Answered">, "_tag" | "at" | "requestId"> => {
  switch (resolution?._tag) {
    case undefined:
      return { answer: "withdrawn", by: "withdrawn" }
    case "Approved": {
      const { edited, grant, isOwn, person } = resolution
      return {
        answer: grant?.answer ?? "ApproveOnce",
        by: isOwn ? "user" : "grant",
        person,
        grant: grant && { id: grant.id, ...(grant.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }) },
        isEdited: edited === undefined ? undefined : true
      }
    }
    case "Suspended":
      return { answer: "suspended", by: "suspended", reason: resolution.reason }
    case "Denied": {
      const { by, person, reason } = resolution
      return { answer: by === "user" ? "Deny" : by, by, person, reason }
    }
  }
}

/** The standing permission that an answer has made, if it is not another question's. */
const grantOf = (resolution: Approvals.Resolution | undefined): Grant | undefined =>
  resolution?._tag === "Approved" && resolution.isOwn ? resolution.grant : undefined

/** Keeps what a person said to more than this one question. */
const remember = (wave: WaveState, resolution: Approvals.Resolution): void => {
  const grant = grantOf(resolution)
  if (grant !== undefined) wave.note(wave.engine.store.grant(grant, wave.patience))
}

/** Notes what a person said to this one question, for the handler. */
const allowOnce = (wave: WaveState, call: Call, request: Approvals.ApprovalRequest): void => {
  const { agentPath, id, principal, revision, targets, tool } = request
  const allowedOnce: Given = {
    id,
    principal,
    tool,
    revision,
    agentPath,
    answer: "ApproveOnce",
    grantedAt: wave.now(),
    ...(targets.length === 0 ? {} : { targets: targets.map(({ text }) => text) })
  }
  call.consent = { ...call.consent, allowedOnce }
}

/** A question is open: the turn's clock may stand still. */
const begin = (wave: WaveState): void => {
  wave.waits.requests++
  wave.process.budget.ask(1, wave.now())
  wave.watcher.asked()
}

/** A question is over. Those that waited until nobody is asked go on, in input order. */
const end = (wave: WaveState): void => {
  wave.process.budget.ask(-1, wave.now())
  wave.waits.answered()
}
