/**
 * The spans and log lines that the facts about one call make: a span for the call, and one for each attempt.
 *
 * Spans of attempts follow OpenTelemetry's conventions for generative AI, v0.1.0. Those are in development, and names
 * here move when they do.
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

/** The wave of a call, as far as its spans need it. */
export interface Wave {
  readonly spans: Spans
  readonly span: Tracer.Span
  readonly context: Context.Context<never>
  readonly principal: string
  /** The sub-agent that calls. */
  readonly agentName: string | undefined
  /** Spans have arguments and results. */
  readonly hasContent: boolean
}

/** The spans of one call. */
export class CallSpans {
  readonly wave: Wave
  readonly id: string
  readonly name: string
  readonly span: Tracer.Span
  /** The last attempt. */
  attempt: Tracer.Span | undefined
  /** The last attempt has not ended. */
  isOpen = false
  /** What is secret about it, if its spans have arguments and results. */
  secrets: Secrets | undefined

  constructor(wave: Wave, id: string, name: string, isKnown: boolean, now: bigint) {
    this.wave = wave
    this.id = id
    this.name = name
    // a model may make up any name
    this.span = wave.spans.begin(isKnown ? `tool_call ${name}` : "tool_call", wave.span, now)
    describe(this.span, name, id)
  }

  /** The span that what happens now belongs to. */
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

/** Gives what a kind of fact does to spans; `undefined` if that is nothing. */
export const of = (fact: CallFact): Fold<never> | undefined => folds[fact._tag]

// Utilities

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
  Asked: undefined,
  Withdrawn: undefined,
  Presented: (it, _, { requestId }) =>
    log(it, "Info", "asked", `A person is asked about "${it.name}"`, { "tool_executor.request": requestId }),
  Answered: (it, _, fact) => {
    const answer = fact.answer === "Deny" ? fact.by : fact.answer
    const about = { "tool_executor.request": fact.requestId, "tool_executor.answer": answer }
    log(it, "Info", "answered", `The question about "${it.name}" was answered: ${answer}`, about)
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
    log(it, "Warn", "late_write", `What "${it.name}" did after its call was over was kept out`, {}),
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

/** Characters of arguments, and of a result, that spans have at most. */
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
