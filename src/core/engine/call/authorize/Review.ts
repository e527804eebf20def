/**
 * Gate 12, before people: a reviewer looks at a call that needs approval, where the policy lets it decide.
 *
 * A review is work: the turn's clock runs, and the call does not rest. Its verdict holds for this one call; no grant is
 * made. What it does not decide goes to people, with what it said.
 */
import * as Effect from "effect/Effect"
import { seen } from "../../../../internal/secrets/index.ts"
import type { Evidence } from "../../../facts/Evidence.ts"
import { mapTexts } from "../../../facts/EvidenceText.ts"
import type { NewRequest } from "../../../gates/ApprovalRequest.ts"
import type { GateCall } from "../../../gates/Gate.ts"
import * as Permissions from "../../../gates/Permissions.ts"
import type { ReviewRequest } from "../../../gates/ReviewRequest.ts"
import * as FileChange from "../../../vocabulary/FileChange.ts"
import type { TargetKind } from "../../../vocabulary/TargetKind.ts"
import type { Reviewed } from "../../data/Memory.ts"
import type { Said } from "../../ports/TimedPorts.ts"
import { Secrets } from "../../report/Secrets.ts"
import { keyOf } from "../../state/Conversations.ts"
import type { Call } from "../Call.ts"
import type { WaveHost } from "../WaveHost.ts"

/** A call that needs approval. */
export interface Reviewable extends Permissions.Asks {
  /** Its targets, if they differ from those that the call was judged by. */
  readonly targets?: GateCall["targets"]
}

/** What a reviewer may decide. */
export type Mandate = NonNullable<Permissions.Asks["review"]>

/** A decision of the reviewer. */
export type Decided =
  | { readonly _tag: "Allowed" }
  | { readonly _tag: "Denied"; readonly by: "reviewer"; readonly reason: string; readonly person?: undefined }

/** What comes of a review: a decision, or what people see of it. */
export type Result =
  | Decided
  | { readonly _tag: "Asks"; readonly evidence: Evidence }
  | { readonly _tag: "Unrecorded" }

/**
 * Returns what the reviewer may decide about a call; `undefined` if it is not asked.
 *
 * Whatever the policy says, it does not replace people where each call or certain people must approve, where an
 * approval brings data, where a target is protected or unknown, or where the call may have happened already.
 */
export const mandate = ({ engine: { reviewer } }: WaveHost, call: Call, question: Reviewable): Mandate | undefined => {
  const { approvers, isAlways, review, targets = call.gateCall!.targets } = question
  if (reviewer === undefined || review === undefined || isAlways === true || approvers !== undefined) return undefined
  // only people fill in forms
  if (call.why !== undefined || (call.attempt === undefined && call.tool!.form !== undefined)) return undefined
  const { mayDeny } = review
  const mayAllow = review.mayAllow && targets !== undefined && targets.every(({ kind }) => !isForPeople(kind))
  return mayAllow || mayDeny ? { mayAllow, mayDeny } : undefined
}

const isForPeople = (kind: TargetKind | undefined): boolean => kind === "protected" || kind === "always"

/** Reviews a call, or finds its verdict on record; `undefined` if there is none and the reviewer is not asked. */
export const review = (
  wave: WaveHost,
  call: Call,
  about: NewRequest,
  mandate: Mandate | undefined
): Effect.Effect<Result | undefined> =>
  Effect.suspend(() => {
    const secrets = new Secrets(call.tool!.redactor)
    const { isWhole, ...shown } = shownOf(call, about, secrets)
    const may = isWhole ? mandate : withoutAllow(mandate)
    const known = onRecord(call, about)
    if (known !== undefined) return Effect.succeed(resultOf(known, may))
    if (may === undefined) return Effect.undefined
    const { engine: { conversations, journal, reviewer }, process: { budget }, watcher } = wave
    const words = conversations?.wordsOf(wave.process) ?? []
    const { breaker, model } = reviewer!
    const begunAt = wave.now()
    const conversation = keyOf(wave.process)
    const stopped = (): Said | undefined => {
      const because = breaker.openedBy(conversation, wave.now())
      return because === undefined
        ? undefined
        : { verdict: "ask", reason: `the reviewer is not asked for now: ${because}`, problem: "breaker" }
    }
    const early = stopped()
    if (early === undefined) {
      budget.execute(1, begunAt)
      watcher.asked()
    }
    const asked: Effect.Effect<Said> = early !== undefined
      ? Effect.succeed(early)
      : Effect.ensuring(
        reviewer!.review(requestOf(call, about, shown, secrets, words), callOf(call), stopped),
        Effect.sync(() => budget.execute(-1, wave.now()))
      )
    return Effect.flatMap(asked, (answer) => {
      const at = wave.now()
      // others may have been denied meanwhile
      const said = stopped() ?? answer
      const reason = secrets.text(said.reason)
      const result = resultOf({ ...said, reason, model }, current(call, about, may))
      const decides = result._tag !== "Asks"
      if (said.problem === undefined) breaker.count(conversation, result._tag === "Denied", at)
      const { problem, verdict } = said
      const fact = { at, verdict, reason, model, millis: at - begunAt, decides, problem, request: about } as const
      wave.facts?.report({ _tag: "Reviewed", ...fact }, call)
      // the start of a call waits for what is on record, a write of a running call does not
      return about.isRunning && result._tag === "Allowed" && call.record !== undefined && journal !== undefined
        ? Effect.map(journal.flush, (isWritten): Result => isWritten ? result : unrecorded)
        : Effect.succeed(result)
    })
  })

/** Notes that a person approved a call of this conversation: the reviewer is asked again. */
export const approved = ({ engine: { reviewer }, process }: WaveHost): void => reviewer?.breaker.close(keyOf(process))

const unrecorded: Result = { _tag: "Unrecorded" }

/** The verdict on record, if approvers would see the same request now and, without a verdict, had seen it then. */
const onRecord = ({ answers, record }: Call, about: NewRequest): Reviewed | undefined => {
  const { given, open, reviewed } = answers ?? {}
  if (reviewed === undefined || reviewed.shown !== record!.shown(about)) return undefined
  return reviewed.problem === undefined || open !== undefined || given !== undefined ? reviewed : undefined
}

/** What the reviewer may decide once it has: the policy may have changed meanwhile. */
const current = (call: Call, about: NewRequest, may: Mandate): Mandate | undefined => {
  const { agent, gateCall, rules } = call
  const now = Permissions.asks(agent.permissions, {
    ...gateCall!,
    targets: about.isRunning ? about.targets : gateCall!.targets
  }, rules!.consent)
  if (now === undefined) return may
  return now.isAlways === true || now.approvers !== undefined || now.review === undefined ? undefined : {
    mayAllow: may.mayAllow && now.review.mayAllow,
    mayDeny: may.mayDeny && now.review.mayDeny
  }
}

const resultOf = (
  { model, reason, verdict }: Pick<Reviewed, "model" | "reason" | "verdict">,
  may: Mandate | undefined
): Result =>
  verdict === "allow" && may?.mayAllow === true
    ? { _tag: "Allowed" }
    : verdict === "deny" && may?.mayDeny === true
    ? { _tag: "Denied", by: "reviewer", reason }
    : { _tag: "Asks", evidence: { _tag: "Reviewed", verdict, reason, model } }

/** Nobody allows what was not seen. */
const withoutAllow = (may: Mandate | undefined): Mandate | undefined =>
  may?.mayDeny === true ? { mayAllow: false, mayDeny: true } : undefined

/** What a call does, as the reviewer sees it, and whether it sees all of that but what the tool declares secret. */
const shownOf = ({ tool }: Call, { args, preview, targets }: NewRequest, secrets: Secrets) => {
  const { declared } = tool!.redactor
  const kept = declared === undefined ? undefined : new Secrets(declared)
  let isWhole = true
  const show = <A>(value: A, left: unknown): A => {
    const it = seen(value, left)
    isWhole &&= it.isWhole
    return it.left as A
  }
  const text = (it: string): string => show(kept === undefined ? it : kept.text(it), secrets.text(it))
  const shown = {
    args: show(kept === undefined ? args : kept.arguments(args), secrets.arguments(args)),
    targets: targets.map((it) => text(it.text)),
    diff: preview?._tag === "Diff" ? text(preview.diff) : undefined
  }
  return { ...shown, isWhole: isWhole && (preview?._tag !== "Diff" || FileChange.isWhole(preview.diff)) }
}

/** What the reviewer sees, without secrets. */
const requestOf = (
  call: Call,
  about: NewRequest,
  { args, diff, targets }: Omit<ReturnType<typeof shownOf>, "isWhole">,
  secrets: Secrets,
  words: ReadonlyArray<string>
): ReviewRequest => {
  const { agentPath, evidence = [], isRunning, preview, tool, why } = about
  return {
    tool,
    description: call.tool!.description,
    args,
    targets: about.targets.map(({ kind }, index) => ({
      text: targets[index]!,
      ...(kind === undefined ? {} : { kind })
    })),
    why: secrets.text(why),
    preview: diff !== undefined ? { diff } : preview?._tag === "None" ? { missing: preview.because } : undefined,
    evidence: evidence.map((it) => mapTexts(it, secrets.text)),
    words: words.map(secrets.text),
    agentPath,
    isRunning
  }
}

const callOf = ({ call: { id: callId }, gateCall, tool }: Call) => {
  const { args, principal } = gateCall!
  return { callId, tool: tool!.name, principal, secrets: { redactor: tool!.redactor, args } }
}
