/**
 * Requests approval for a call and waits for the answer.
 *
 * The turn's clock stops while a request is pending. Interrupting the wait withdraws the request. Nothing of the call
 * runs in the fiber that answers.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Unseen from "../../../../internal/unseen.ts"
import type { Evidence } from "../../../facts/Evidence.ts"
import type { Of } from "../../../facts/Fact.ts"
import type * as Approvals from "../../../gates/Approvals.ts"
import * as Approving from "../../../gates/Approving.ts"
import type { GateCall } from "../../../gates/Gate.ts"
import * as PermissionPattern from "../../../gates/PermissionPattern.ts"
import type * as Permissions from "../../../gates/Permissions.ts"
import type { GivenApproval } from "../../../vocabulary/Approvers.ts"
import * as Grant from "../../../vocabulary/Grant.ts"
import * as WhoApproves from "../../../vocabulary/WhoApproves.ts"
import * as Revisions from "../../data/Revisions.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"
import * as Review from "./Review.ts"
import * as StandingGrants from "./StandingGrants.ts"

/** What approvers are asked about a call. */
export interface Question extends Permissions.Asks {
  readonly preview?: Approvals.Preview | undefined
  /** The targets, if they differ from those that the call was judged by. */
  readonly targets?: GateCall["targets"]
  /** Approvals of this call with its arguments as they are, given before. */
  readonly approvals?: ReadonlyArray<GivenApproval> | undefined
}

/**
 * The answer to a request. `Allowed`: a reviewer allows this call. `Unrecorded`: no request was made, because it could
 * not be journaled and the call may change things.
 */
export type Answer = Approvals.Resolution | Review.Decided | { readonly _tag: "Unrecorded" }

/**
 * Requests approval and waits for the answer, after a review if the policy lets a reviewer decide. Without an approver,
 * the request is denied immediately.
 */
export const ask = (wave: WaveHost, call: Call, reason: Question): Effect.Effect<Answer> =>
  Effect.suspend(() => {
    const { people } = wave.process
    const { given: answers, open, reviewed } = call.answers ?? {}
    const may = open === undefined ? Review.mandate(wave, call, reason) : undefined
    if (people === undefined && answers === undefined && may === undefined) return Effect.succeed(nobody(reason))
    const question = withEvidence(reason, call.gateCall!)
    wave.waits.requests++
    return Effect.ensuring(
      may === undefined && reviewed === undefined
        ? askPeople(wave, call, question)
        : afterReview(wave, call, question, may),
      Effect.sync(() => wave.waits.answered())
    )
  })

/** Asks people what the reviewer does not decide. They see what it said, also after a restart. */
const afterReview = Effect.fnUntracedEager(function*(
  wave: WaveHost,
  call: Call,
  question: Question,
  may: Permissions.Asks["review"]
): Effect.fn.Return<Answer> {
  const about = aboutOf(call, question)
  const hasAnswer = call.answers?.given !== undefined && onRecord(call, about) !== undefined
  const said = hasAnswer ? undefined : yield* Review.review(wave, call, about, may)
  if (said === undefined) return yield* askPeople(wave, call, question)
  if (said._tag !== "Asks") return said
  // an answer to another request may cover this call by now
  const grant = yield* StandingGrants.grantFor(wave, call, question, question.targets ?? call.gateCall!.targets)
  if (grant !== undefined) return { _tag: "Approved", grant, isOwn: false, edited: undefined }
  const { evidence = [] } = question
  return yield* askPeople(wave, call, { ...question, evidence: [...evidence, said.evidence] })
})

/** What approvers are shown. */
const aboutOf = (call: Call, question: Question): Approvals.NewRequest => {
  const { agentPath, args, batch, principal, process, tool: { class: kind, name: tool } } = call.gateCall!
  const { targets = call.gateCall!.targets } = question
  // an answer for unknown targets, or for none, must not be remembered: it would allow everything
  const isKnown = targets !== undefined && (targets.length > 0 || !call.tool!.declaresTargets)
  const isRunning = call.attempt !== undefined
  const form = isRunning ? undefined : call.tool!.form
  const remember = isKnown && form === undefined ? question.remember : "call"
  const wider = remember === "tool" ? PermissionPattern.widerThan(targets!) : []
  return {
    ...shownOf(question),
    ...(wider.length === 0 ? {} : { wider }),
    ...(form === undefined ? {} : { form }),
    remember,
    agentPath,
    args,
    batch,
    callId: call.call.id,
    index: call.index,
    class: kind,
    isRunning,
    principal,
    process,
    revision: Revisions.of(call.tool!),
    targets: targets ?? [],
    tool
  }
}

const askPeople = (wave: WaveHost, call: Call, question: Question): Effect.Effect<Answer> =>
  Effect.suspend(() => {
    const { people } = wave.process
    const { given: answers, open } = call.answers ?? {}
    const about: Approvals.NewRequest = {
      ...aboutOf(call, question),
      ...(open === undefined ? {} : { id: open.id, requestedAt: open.requestedAt, expiresAt: open.expiresAt })
    }
    const said = answers === undefined ? undefined : onRecord(call, about)
    if (said !== undefined) {
      hear(call, said)
      return Effect.succeed(said)
    }
    if (people === undefined) return Effect.succeed<Approvals.Resolution>(nobody(question))
    // a later request is a new one
    if (open !== undefined) call.answers!.open = undefined
    const diff = question.preview?._tag === "Diff" ? question.preview.diff : undefined
    const { journal } = wave.engine
    const put = (request: Approvals.ApprovalRequest) => {
      const { id: requestId } = request
      wave.facts?.report({
        _tag: "Presented",
        at: wave.now(),
        requestId,
        why: question.why,
        diff,
        evidence: question.evidence
      }, call)
      let said: Approvals.Resolution | undefined
      const answered = Deferred.makeUnsafe<void>()
      const recorded = call.record === undefined || journal === undefined ? Effect.void : Effect.asVoid(journal.flush)
      const known = new Set((request.approvals ?? []).map(keyOf))
      const heard = (approvals: ReadonlyArray<GivenApproval>) => {
        for (const approval of approvals) {
          if (known.has(keyOf(approval))) continue
          known.add(keyOf(approval))
          wave.facts?.report({ _tag: "ApprovedBy", at: wave.now(), requestId, approval }, call)
        }
        return recorded
      }
      const told = (given: Approvals.Resolution) => {
        const resolution = checked(request, given)
        said = resolution
        wave.waits.shown(call, false)
        if (resolution._tag === "Approved") void heard(resolution.approvals ?? [])
        hear(call, resolution)
        remember(wave, resolution)
        if (resolution._tag === "Approved" && resolution.isOwn) Review.approved(wave)
        if (resolution._tag === "Approved" && resolution.grant === undefined) allowOnce(wave, call, request)
        return Effect.andThen(Deferred.await(answered), recorded)
      }
      // an answer counts even if the call ended before it could continue
      return Effect.ensuring(
        Effect.suspend(() => {
          wave.waits.shown(call, true)
          return Effect.map(people.submit(request, told, heard), (it) => checked(request, it))
        }),
        Effect.sync(() => {
          wave.waits.shown(call, false)
          wave.facts?.report({ _tag: "Answered", at: wave.now(), requestId, ...answerOf(said) }, call)
          const grant = grantOf(said)
          if (grant !== undefined) wave.facts?.report({ _tag: "Granted", at: grant.grantedAt, grant }, call)
          Deferred.doneUnsafe(answered, Effect.void)
        })
      )
    }
    const given = open === undefined || open.shown !== call.record?.shown(about) ? question.approvals : open.approvals
    const asked = Effect.flatMap(
      people.request(given === undefined ? about : { ...about, approvals: given }),
      (request): Effect.Effect<Answer> => {
        if (request === undefined) return Effect.succeed(nobody(question))
        if (call.record === undefined || journal === undefined) return put(request)
        const withdraw = Effect.sync(() =>
          wave.facts?.report({ _tag: "Withdrawn", at: wave.now(), requestId: request.id }, call)
        )
        wave.facts?.report({ _tag: "Asked", at: wave.now(), request }, call)
        // a request that approvers saw must survive a crash; one that was open before is on record
        return Effect.flatMap(
          Effect.onInterrupt(journal.flush, () => withdraw),
          (isWritten) =>
            isWritten || open !== undefined || call.tool!.readOnly ? put(request) : Effect.as(withdraw, unrecorded)
        )
      }
    )
    begin(wave)
    return Effect.ensuring(asked, Effect.sync(() => wave.process.budget.ask(-1, wave.now())))
  })

/** Returns the denial of a request that has no approver. */
export const nobody = ({ why }: Permissions.Asks): Extract<Approvals.Resolution, { readonly _tag: "Denied" }> => ({
  _tag: "Denied",
  by: "noApprover",
  reason: why
})

/** Runs an effect that ends with the call, even where the waiting fiber cannot be interrupted. */
export const withCall = <A>(wave: WaveHost, call: Call, effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.callback<A>((resume) => {
    const fiber = Effect.runForkWith(wave.context)(effect)
    call.waiting = fiber
    fiber.addObserver((exit) => {
      call.waiting = undefined
      resume(exit)
    })
    return Effect.sync(() => fiber.interruptUnsafe())
  })

/** Adds how the call would run, and what approvers would not see of the arguments. */
const withEvidence = (question: Question, { args, sandbox }: GateCall): Question => {
  const unseen = Unseen.findIn(args)
  if (unseen === undefined && sandbox === undefined) return question
  return {
    ...question,
    evidence: [
      ...sandbox === undefined ? [] : [sandboxed(sandbox)],
      ...question.evidence ?? [],
      ...unseen === undefined ? [] : [invisible(unseen)]
    ]
  }
}

const sandboxed = ({ driver, holds, missing, network }: NonNullable<GateCall["sandbox"]>): Evidence => ({
  _tag: "Sandboxed",
  driver,
  network,
  holds,
  missing
})

const invisible = (
  { count: characters, path, spells }: NonNullable<ReturnType<typeof Unseen.findIn>>
): Evidence => {
  const where = path === "" ? "arguments" : `arguments.${path}`
  return { _tag: "Unseen", where, characters, ...spells === undefined ? {} : { text: spells } }
}

/** What a question says to approvers. */
const shownOf = ({ approvers, evidence, isAlways, preview, why }: Question) => ({
  why,
  preview,
  ...(evidence === undefined ? {} : { evidence }),
  ...(isAlways === true ? { isAlways } : {}),
  ...(approvers === undefined ? {} : { approvers })
})

const unrecorded: Answer = { _tag: "Unrecorded" }

/** Returns the answer given before a crash, if approvers would see the same request now. */
const onRecord = ({ answers, record, why }: Call, about: Approvals.NewRequest): Approvals.Resolution | undefined => {
  const shown = record!.shown(about)
  const again = about.why === why
  // where each call is asked about now, what covered another call does not count, nor what a handler has used before
  const counts = (it: Approvals.Resolution) =>
    about.isAlways !== true || it._tag !== "Approved" || (it.isOwn && !about.isRunning)
  return answers!.given!
    .find((it) => it.shown === shown && it.again === again && counts(it.resolution))?.resolution
}

/** Only an answer of everybody who has to approve counts, whatever a driver says. */
const checked = (request: Approvals.ApprovalRequest, resolution: Approvals.Resolution): Approvals.Resolution => {
  const { approvers } = request
  if (approvers === undefined || resolution._tag !== "Approved" || resolution.edited !== undefined) return resolution
  const { approvals = [], grant, isOwn } = resolution
  const isByAll = isOwn
    ? Approving.isApproved(approvals, request)
    : grant !== undefined && Grant.isByAll(grant, approvers)
  return isByAll
    ? resolution
    : { _tag: "Denied", by: "noApprover", reason: WhoApproves.sentence(approvers, approvals, request) }
}

/** Keeps what approvers say besides yes. */
const hear = (call: Call, resolution: Approvals.Resolution): void => {
  if (resolution._tag !== "Approved") return
  const { approvals, data, note, person } = resolution
  if (data === undefined && note === undefined) return
  const people = approvals?.map((it) => it.person) ?? (person === undefined ? [] : [person])
  call.consent = { ...call.consent, answer: { data, note, people } }
}

const keyOf = ({ at, person }: GivenApproval): string => `${at} ${person}`

/** Returns the answer as an `Answered` fact reports it. */
const answerOf = (
  resolution: Approvals.Resolution | undefined
): Omit<Of<"Answered">, "_tag" | "at" | "requestId"> => {
  switch (resolution?._tag) {
    case undefined:
      return { answer: "withdrawn", by: "withdrawn" }
    case "Approved": {
      const { data, edited, grant, isOwn, note, person } = resolution
      return {
        answer: grant?.answer ?? "ApproveOnce",
        by: isOwn ? "user" : "grant",
        person,
        grant: grant && { id: grant.id, ...(grant.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }) },
        isEdited: edited === undefined ? undefined : true,
        note,
        hasData: data === undefined ? undefined : true
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

/**
 * Returns the grant that this answer created, if any. One that another request's answer created does not
 * count.
 */
const grantOf = (resolution: Approvals.Resolution | undefined): Grant.Grant | undefined =>
  resolution?._tag === "Approved" && resolution.isOwn ? resolution.grant : undefined

/** Stores the grant that the answer created. */
const remember = (wave: WaveHost, resolution: Approvals.Resolution): void => {
  const grant = grantOf(resolution)
  if (grant !== undefined) wave.note(wave.engine.store.grant(grant, wave.patience))
}

/** Records a one-time approval, which the handler sees in `ToolContext.grant`. */
const allowOnce = (wave: WaveHost, call: Call, request: Approvals.ApprovalRequest): void => {
  const { agentPath, id, principal, revision, targets, tool } = request
  const allowedOnce: Grant.Given = {
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

/** A request is pending: the turn's clock may stop. */
const begin = (wave: WaveHost): void => {
  wave.process.budget.ask(1, wave.now())
  wave.watcher.asked()
}
