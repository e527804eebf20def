/**
 * Turns facts about calls into spans and log lines: one span for the call, and one for each attempt.
 *
 * Attempt spans follow OpenTelemetry's conventions for generative AI, v0.1.0. These are in development; names here
 * follow their changes.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import * as CallLog from "../../../internal/callLog.ts"
import { clip } from "../../../internal/clip.ts"
import { spanExit } from "../../../internal/spanError.ts"
import type { CallFact, Of, SpanId } from "../../facts/Fact.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import { type CallTimes, errorOf, seconds } from "./CallTimes.ts"
import { Secrets } from "./Secrets.ts"
import type { Spans } from "./Spans.ts"

/** What the spans of a call need from its wave. */
export interface Wave {
  readonly spans: Spans
  readonly span: Tracer.Span
  readonly context: Context.Context<never>
  readonly principal: string
  /** The sub-agent that makes the calls. */
  readonly agentName: string | undefined
  /** Whether spans include arguments and results. */
  readonly hasContent: boolean
}

export class CallSpans {
  readonly wave: Wave
  readonly id: string
  readonly name: string
  readonly span: Tracer.Span
  /** The last attempt. */
  attempt: Tracer.Span | undefined
  /** Whether the last attempt is still running. */
  isOpen = false
  /** Its secrets, if its spans include arguments and results. */
  secrets: Secrets | undefined

  constructor(wave: Wave, id: string, name: string, isKnown: boolean, now: bigint) {
    this.wave = wave
    this.id = id
    this.name = name
    // a model may make up any name, so unknown names stay out of span names
    this.span = wave.spans.begin(isKnown ? `tool_call ${name}` : "tool_call", wave.span, now)
    describe(this.span, name, id)
  }

  /** The span for what happens now. */
  get current(): Tracer.Span {
    return this.attempt ?? this.span
  }
}

type Fold<F extends CallFact> = (
  it: CallSpans,
  now: bigint,
  fact: F,
  times: CallTimes,
  tool: RegisteredTool | undefined
) => void

/** Gives how a fact changes spans, if it does. */
export const of = (fact: CallFact): Fold<never> | undefined => folds[fact._tag]

const link = (it: CallSpans, how: "joined" | "resumed", place: SpanId | undefined): void => {
  if (place === undefined) return
  it.span.addLinks([{ span: Tracer.externalSpan(place), attributes: { "tool_executor.link": how } }])
}

const begin = (
  it: CallSpans,
  now: bigint,
  attempt: number,
  limitMillis: number,
  args: unknown,
  { isFirst, queued }: CallTimes,
  tool: RegisteredTool | undefined
): void => {
  const { id, name, span: parent, wave: { agentName, hasContent, spans } } = it
  if (isFirst) parent.attribute("tool_executor.queue.duration", seconds(queued))
  const span = it.attempt = spans.begin(`execute_tool ${name}`, parent, now)
  it.isOpen = true
  span.attribute("gen_ai.operation.name", "execute_tool")
  describe(span, name, id)
  span.attribute("gen_ai.tool.type", "function")
  span.attribute("tool_executor.attempt", attempt)
  if (limitMillis !== Infinity) span.attribute("tool_executor.limit", limitMillis / 1e3)
  if (agentName !== undefined) span.attribute("gen_ai.agent.name", agentName)
  if (!hasContent || tool === undefined) return
  it.secrets ??= new Secrets(tool.redactor)
  span.attribute("gen_ai.tool.call.arguments", json(it.secrets.arguments(args)))
}

const endAttempt = (it: CallSpans, error: string | undefined, now: bigint): void => {
  if (!it.isOpen) return
  it.isOpen = false
  const span = it.attempt!
  if (error !== undefined) span.attribute("error.type", error)
  it.wave.spans.end(span, spanExit(error), now)
}

const end = (
  it: CallSpans,
  now: bigint,
  outcome: ToolOutcome,
  { asked }: CallTimes,
  shared?: { readonly value?: unknown; readonly sharedWith?: SpanId | undefined }
): void => {
  const { isOpen, secrets, span, wave: { spans } } = it
  const error = errorOf(outcome)
  if (secrets !== undefined && isOpen && outcome._tag === "Succeeded") {
    it.attempt!.attribute("gen_ai.tool.call.result", resultOf(secrets.outcome(outcome, shared?.value)))
  }
  endAttempt(it, error, now)
  link(it, "joined", shared?.sharedWith)
  span.attribute("tool_executor.outcome", outcome._tag)
  if (error !== undefined) span.attribute("error.type", error)
  if (asked > 0n) span.attribute("tool_executor.approval.duration", seconds(asked))
  spans.end(span, spanExit(error), now)
}

const log = (
  { id, name, span, wave: { context, principal } }: CallSpans,
  level: "Info" | "Warn",
  event: string,
  message: string,
  more: Readonly<Record<string, string>>
): void => {
  const line = CallLog.log(level, message, undefined, { callId: id, tool: name, principal })
  const annotated = Effect.annotateLogs(line, { "event.name": `tool_executor.${event}`, ...more })
  Effect.runForkWith(Context.add(context, Tracer.ParentSpan, span))(annotated)
}

const folds: { readonly [T in CallFact["_tag"]]: Fold<Of<T>> | undefined } = {
  Queued: undefined,
  Resumed: (it, _, { span }) => link(it, "resumed", span),
  Arrived: undefined,
  Decided: undefined,
  Shadowed: undefined,
  Reviewed: (it, _, { decides, model, problem, verdict }) => {
    const about = { "tool_executor.review.verdict": verdict, "tool_executor.review.model": model }
    const how = decides ? "decides" : problem === undefined ? "a person decides" : `${problem}, a person decides`
    log(it, "Info", "reviewed", `The reviewer said of "${it.name}": ${verdict} (${how})`, about)
  },
  Asked: undefined,
  Withdrawn: undefined,
  Presented: (it, _, { requestId }) =>
    log(it, "Info", "asked", `Approval requested for "${it.name}"`, { "tool_executor.request": requestId }),
  ApprovedBy: (it, _, { approval, requestId }) =>
    log(it, "Info", "approved", `"${it.name}" was approved by ${approval.person}`, {
      "tool_executor.request": requestId
    }),
  Answered: (it, _, fact) => {
    const request = { "tool_executor.request": fact.requestId }
    if (fact.by === "suspended") {
      return log(
        it,
        "Info",
        "suspended",
        `The approval request for "${it.name}" stays open: its call resumes later`,
        request
      )
    }
    const answer = fact.answer === "Deny" ? fact.by : fact.answer
    const about = { ...request, "tool_executor.answer": answer }
    log(it, "Info", "answered", `The approval request for "${it.name}" was answered: ${answer}`, about)
  },
  Granted: undefined,
  Starting: undefined,
  Started: (it, now, { attempt, input, limitMillis }, times, tool) =>
    begin(it, now, attempt, limitMillis, input.args, times, tool),
  AttemptFailed: (it, now) => endAttempt(it, "Failed", now),
  Recalled: (it, now, { args, attempt }, times, tool) => begin(it, now, attempt, Infinity, args, times, tool),
  Reported: undefined,
  Committed: undefined,
  LateWriteBlocked: (it) =>
    log(it, "Warn", "late_write", `A late write of "${it.name}" was blocked: its call had ended`, {}),
  Settled: (it, now, fact, times) => end(it, now, fact.outcome, times, fact),
  Suspended: (it, now, { outcome }, times) => end(it, now, outcome, times),
  GivenBack: undefined,
  Concluded: undefined,
  Orphaned: undefined,
  OrphanEnded: undefined
}

const describe = (span: Tracer.Span, name: string, id: string): void => {
  span.attribute("gen_ai.tool.name", name)
  span.attribute("gen_ai.tool.call.id", id)
}

/** Maximum number of characters of arguments, and of a result, in a span. */
const maxContent = 10_000

const json = (value: unknown): string => {
  try {
    return clip(JSON.stringify(value) ?? "", maxContent)
  } catch {
    return ""
  }
}

const resultOf = (outcome: ToolOutcome): string =>
  outcome._tag !== "Succeeded"
    ? ""
    : outcome.output._tag === "Inline"
    ? json(outcome.output.value)
    : clip(outcome.output.modelText, maxContent)
