/**
 * What an operator sees of one call: its span with its waits, one span for each attempt,
 * and the figures of its tool.
 *
 * Spans of attempts follow OpenTelemetry's conventions for generative AI, v0.1.0. All of
 * them are in development, and names here move when they do.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Tracer from "effect/Tracer"
import * as CallLog from "../../../internal/callLog.ts"
import { clip } from "../../../internal/clip.ts"
import { spanExit } from "../../../internal/spanError.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { Meters, ToolMeters } from "./Meters.ts"
import { Secrets } from "./Secrets.ts"
import type { Spans } from "./Spans.ts"

/**
 * The wave of a call, as far as its telemetry needs it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Wave {
  readonly meters: Meters
  readonly spans: Spans | undefined
  readonly span: Tracer.Span | undefined
  readonly context: Context.Context<never>
  readonly principal: string
  /** The sub-agent that calls. */
  readonly agentName: string | undefined
  /** Spans have arguments and results. */
  readonly hasContent: boolean
  /** Nanoseconds. */
  now(): bigint
}

/**
 * What is known of a call once it has arrived.
 *
 * @category models
 * @since 0.1.0
 */
export interface Judged {
  readonly gateCall: { readonly args: unknown; readonly tool: RegisteredTool } | undefined
}

/**
 * A call that telemetry is of.
 *
 * @category models
 * @since 0.1.0
 */
export interface Traced extends Judged {
  readonly call: { readonly id: string; readonly name: string }
  trace?: CallTrace
}

/**
 * What knows a span again.
 *
 * @category models
 * @since 0.1.0
 */
export interface Place {
  readonly traceId: string
  readonly spanId: string
}

/**
 * The telemetry of a call: its span, its waits, its attempts.
 *
 * @category models
 * @since 0.1.0
 */
export class CallTrace {
  readonly span: Tracer.Span | undefined
  private readonly wave: Wave
  private readonly id: string
  private readonly name: string
  private readonly meters: ToolMeters
  private readonly arrivedAt: bigint
  private attempt: Tracer.Span | undefined
  /** Since when the present attempt runs. */
  private attemptedAt: bigint | undefined
  private hasStarted = false
  /** What is secret about it, where its arguments and results are told. */
  private secrets: Secrets | undefined
  /** How long people took. */
  private asked = 0n
  private askedAt = 0n

  constructor(wave: Wave, id: string, name: string, isKnown: boolean, now: bigint) {
    this.wave = wave
    this.id = id
    this.name = name
    this.arrivedAt = now
    // a model may make up any name
    this.meters = wave.meters.tool(isKnown ? name : "_OTHER")
    const { span: parent, spans } = wave
    const span = this.span = spans?.begin(isKnown ? `tool_call ${name}` : "tool_call", parent, now)
    if (span !== undefined) described(span, name, id)
  }

  /** As the wave has it, with the span of the call. */
  get context(): Context.Context<never> {
    const { context } = this.wave
    return this.span === undefined ? context : Context.add(context, Tracer.ParentSpan, this.span)
  }

  /** Where its span is found. */
  get place(): Place | undefined {
    return this.span === undefined ? undefined : { traceId: this.span.traceId, spanId: this.span.spanId }
  }

  /** It goes on from the record of an earlier life, whose span was this. */
  resumes(place: Place | undefined): void {
    if (place !== undefined) this.link("resumed", Tracer.externalSpan(place))
  }

  /** An attempt begins: the first, or an automatic retry. */
  begin(number: number, limitMillis: number, { gateCall }: Judged): void {
    const { span: parent, wave: { agentName, spans } } = this
    const now = this.attemptedAt = this.wave.now()
    this.meters.attempt()
    if (!this.hasStarted) {
      this.hasStarted = true
      const queued = seconds(now - this.arrivedAt - this.asked)
      this.wave.meters.waiting(-1)
      this.meters.running(1)
      this.meters.queued(queued)
      parent?.attribute("tool_executor.queue.duration", queued)
    }
    if (spans === undefined) return
    const span = this.attempt = spans.begin(`execute_tool ${this.name}`, parent, now)
    span.attribute("gen_ai.operation.name", "execute_tool")
    described(span, this.name, this.id)
    span.attribute("gen_ai.tool.type", "function")
    span.attribute("tool_executor.attempt", number)
    if (limitMillis !== Infinity) span.attribute("tool_executor.limit", limitMillis / 1e3)
    if (agentName !== undefined) span.attribute("gen_ai.agent.name", agentName)
    if (!this.wave.hasContent || gateCall === undefined) return
    this.secrets ??= new Secrets(gateCall.tool.redactor)
    span.attribute("gen_ai.tool.call.arguments", json(this.secrets.arguments(gateCall.args)))
  }

  /** A context, with the span of the present attempt. */
  under(context: Context.Context<never>): Context.Context<never> {
    const span = this.attempt ?? this.span
    return span === undefined ? context : Context.add(context, Tracer.ParentSpan, span)
  }

  /** A handler that may be started once more when it fails: each attempt has a span of its own. */
  retried<A, E>(handled: Effect.Effect<A, E>): Effect.Effect<A, E> {
    const { attempt } = this
    const ended = Effect.tapError(handled, () => Effect.sync(() => this.end("Failed", this.wave.now())))
    return attempt === undefined ? ended : Effect.provideService(ended, Tracer.ParentSpan, attempt)
  }

  /** The call has its outcome; `value` is its whole output, `leader` the call that it had joined. */
  settled(outcome: ToolOutcome, value: unknown, leader: CallTrace | undefined): void {
    const { span, wave: { spans } } = this
    const error = errorOf(outcome)
    const now = this.wave.now()
    if (this.secrets !== undefined && this.attemptedAt !== undefined && outcome._tag === "Succeeded") {
      this.attempt!.attribute("gen_ai.tool.call.result", resultOf(this.secrets.outcome(outcome, value)))
    }
    this.end(error, now)
    this.meters.outcome(outcome._tag, error)
    if (this.hasStarted) this.meters.running(-1)
    else this.wave.meters.waiting(-1)
    if (span === undefined) return
    if (leader?.span !== undefined) this.link("joined", leader.attempt ?? leader.span)
    span.attribute("tool_executor.outcome", outcome._tag)
    if (error !== undefined) span.attribute("error.type", error)
    if (this.asked > 0n) span.attribute("tool_executor.approval.duration", seconds(this.asked))
    spans!.end(span, spanExit(error), now)
  }

  /** Its handler still runs. */
  orphaned(fiber: Fiber.Fiber<unknown, unknown>): void {
    this.meters.orphaned(1)
    fiber.addObserver(() => this.meters.orphaned(-1))
  }

  /** A person is asked. */
  ask(requestId: string): void {
    this.askedAt = this.wave.now()
    this.wave.meters.questions(1)
    this.log("Info", "asked", `A person is asked about "${this.name}"`, { "tool_executor.request": requestId })
  }

  /** The question is over. */
  answer(requestId: string, answer: string): void {
    this.asked += this.wave.now() - this.askedAt
    this.wave.meters.questions(-1)
    const about = { "tool_executor.request": requestId, "tool_executor.answer": answer }
    this.log("Info", "answered", `The question about "${this.name}" was answered: ${answer}`, about)
  }

  /** Something came after the outcome, and was kept out. */
  late(): void {
    this.log("Warn", "late_write", `What "${this.name}" did after its call was over was kept out`, {})
  }

  /** The present attempt is over, unless it was before. */
  private end(error: string | undefined, now: bigint): void {
    const { attempt, attemptedAt } = this
    if (attemptedAt === undefined) return
    this.attemptedAt = undefined
    this.meters.executed(seconds(now - attemptedAt), error)
    if (attempt === undefined) return
    if (error !== undefined) attempt.attribute("error.type", error)
    this.wave.spans!.end(attempt, spanExit(error), now)
  }

  private link(how: "joined" | "resumed", span: Tracer.AnySpan): void {
    this.span?.addLinks([{ span, attributes: { "tool_executor.link": how } }])
  }

  private log(level: "Info" | "Warn", event: string, message: string, more: Readonly<Record<string, string>>): void {
    if (this.span === undefined) return
    const { principal } = this.wave
    const line = CallLog.log(level, message, undefined, { callId: this.id, tool: this.name, principal })
    Effect.runForkWith(this.context)(Effect.annotateLogs(line, { "event.name": `tool_executor.${event}`, ...more }))
  }
}

// Utilities

const seconds = (nanos: bigint): number => Number(nanos) / 1e9

const described = (span: Tracer.Span, name: string, id: string): void => {
  span.attribute("gen_ai.tool.name", name)
  span.attribute("gen_ai.tool.call.id", id)
}

/** So many characters of arguments, and of a result, are told. */
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

/** A refusal by its own name, whatever else did not succeed by its outcome's. */
const errorOf = (outcome: ToolOutcome): string | undefined =>
  outcome._tag === "Succeeded" ? undefined : outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag
