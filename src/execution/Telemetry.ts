/**
 * What an operator sees of calls: a span for each wave, for each of its calls and for
 * each attempt, and metrics, wherever the caller has a span or a tracer of its own.
 *
 * Where nobody asked there is nothing of it: a wave and its calls have `undefined`
 * instead. Attempts follow OpenTelemetry's conventions for generative AI, as of
 * `open-telemetry/semantic-conventions-genai` at commit
 * 004902b8cb70aa5ae6ca4ae07132b7daabcd3e10 (`model/gen-ai/spans.yaml`, `metrics.yaml`):
 * all of them are in development, and names follow them when they move.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"
import * as CallLog from "../internal/callLog.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import { Meters, type ToolMeters } from "./Meters.ts"
import { Spans } from "./Spans.ts"

/**
 * What the calls of a wave have in common for those who look at them.
 *
 * @category models
 * @since 0.1.0
 */
export interface About {
  /** Names of the sub-agents from the root down to the one that calls. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
  /** Its number in its process, from 1. */
  readonly wave: number
}

/**
 * The telemetry of an executor and its sub-agents.
 *
 * @category models
 * @since 0.1.0
 */
export class Telemetry {
  private readonly isForced: boolean
  /** Where the last wave was measured: most of them have the same registry. */
  private measured: { readonly registry: unknown; readonly labels: unknown; readonly meters: Meters } | undefined

  constructor(mode: "auto" | "on") {
    this.isForced = mode === "on"
  }

  /** Metrics of what is done for no wave, once one was measured. */
  get meters(): Meters | undefined {
    return this.measured?.meters
  }

  /** Begins the telemetry of a wave; `undefined` where nobody asked for any. */
  begin(context: Context.Context<never>, principal: string, about: About): WaveTrace | undefined {
    const isTraced = (this.isForced || Spans.isWanted(context)) && !Spans.isRefused(context)
    const isMeasured = isTraced || this.isForced ||
      Context.getOrUndefined(context, Metric.MetricRegistry) !== undefined
    if (!isMeasured) return undefined
    const clock = Context.get(context, Clock.Clock)
    const spans = isTraced ? new Spans(context) : undefined
    return new WaveTrace(context, clock, principal, about, this.metersOf(context), spans)
  }

  private metersOf(context: Context.Context<never>): Meters {
    const registry = Context.get(context, Metric.MetricRegistry)
    const labels = Context.get(context, Metric.CurrentMetricAttributes)
    if (this.measured?.registry !== registry || this.measured.labels !== labels) {
      this.measured = { registry, labels, meters: new Meters(context) }
    }
    return this.measured.meters
  }
}

/**
 * The telemetry of a wave.
 *
 * @category models
 * @since 0.1.0
 */
export class WaveTrace {
  readonly meters: Meters
  readonly spans: Spans | undefined
  readonly principal: string
  readonly about: About
  readonly span: Tracer.Span | undefined
  /** As the caller has it, with the span of the wave. */
  readonly context: Context.Context<never>
  private readonly clock: Clock.Clock

  constructor(
    context: Context.Context<never>,
    clock: Clock.Clock,
    principal: string,
    about: About,
    meters: Meters,
    spans: Spans | undefined
  ) {
    this.clock = clock
    this.principal = principal
    this.about = about
    this.meters = meters
    this.spans = spans
    const span = this.span = spans?.begin("tool_executor.wave", spans.outer, this.now())
    this.context = span === undefined ? context : Context.add(context, Tracer.ParentSpan, span)
    if (span === undefined) return
    span.attribute("tool_executor.principal", principal)
    span.attribute("tool_executor.batch", about.batch)
    span.attribute("tool_executor.process", about.process)
    span.attribute("tool_executor.wave", about.wave)
    agent(span, about)
  }

  /** Begins the telemetry of its calls; of tools that there are, the name is in metrics, too. */
  arrived(calls: ReadonlyArray<Traced>, tools: ReadonlyMap<string, unknown>): void {
    const now = this.now()
    for (const traced of calls) {
      const { call: { id, name } } = traced
      traced.trace = new CallTrace(this, id, name, tools.has(name), now)
    }
    this.meters.waiting(calls.length)
    this.span?.attribute("tool_executor.calls", calls.length)
  }

  end(): void {
    if (this.span !== undefined) this.spans!.end(this.span, Exit.void, this.now())
  }

  /** An effect under the span of the wave. */
  within<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return this.span === undefined || Exit.isExit(effect)
      ? effect
      : Effect.provideService(effect, Tracer.ParentSpan, this.span)
  }

  /** Nanoseconds. */
  now(): bigint {
    return this.clock.currentTimeNanosUnsafe()
  }
}

/**
 * A call that telemetry is of.
 *
 * @category models
 * @since 0.1.0
 */
export interface Traced {
  readonly call: { readonly id: string; readonly name: string }
  trace?: CallTrace
}

/**
 * The telemetry of a call: its span, its waits, its attempts.
 *
 * @category models
 * @since 0.1.0
 */
export class CallTrace {
  readonly span: Tracer.Span | undefined
  private readonly wave: WaveTrace
  private readonly id: string
  private readonly name: string
  private readonly meters: ToolMeters
  private readonly arrivedAt: bigint
  private attempt: Tracer.Span | undefined
  /** Since when the present attempt runs. */
  private attemptedAt: bigint | undefined
  private hasStarted = false
  /** How long people took. */
  private asked = 0n
  private askedAt = 0n

  constructor(wave: WaveTrace, id: string, name: string, isKnown: boolean, now: bigint) {
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

  /** An attempt begins: the first, or an automatic retry. */
  begin(number: number, limitMillis: number): void {
    const { span: parent, wave: { about, spans } } = this
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
    agent(span, about)
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

  /** The call has its outcome; `leader` is the call that it had joined. */
  settled(outcome: ToolOutcome, leader: CallTrace | undefined): void {
    const { span, wave: { spans } } = this
    const error = errorOf(outcome)
    const now = this.wave.now()
    this.end(error, now)
    this.meters.outcome(outcome._tag, error)
    if (this.hasStarted) this.meters.running(-1)
    else this.wave.meters.waiting(-1)
    if (span === undefined) return
    if (leader?.span !== undefined) {
      span.addLinks([{ span: leader.attempt ?? leader.span, attributes: { "tool_executor.link": "joined" } }])
    }
    span.attribute("tool_executor.outcome", outcome._tag)
    if (error !== undefined) span.attribute("error.type", error)
    if (this.asked > 0n) span.attribute("tool_executor.approval.duration", seconds(this.asked))
    spans!.end(span, exitOf(outcome, error), now)
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
    this.wave.spans!.end(attempt, error === undefined ? Exit.void : Exit.fail(error), now)
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

const agent = (span: Tracer.Span, { agentPath }: About): void => {
  if (agentPath.length > 0) span.attribute("gen_ai.agent.name", agentPath.at(-1))
}

/** A refusal by its own name, whatever else did not succeed by its outcome's. */
const errorOf = (outcome: ToolOutcome): string | undefined =>
  outcome._tag === "Succeeded" ? undefined : outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag

/** Neither what a handler gave nor what it failed of, which may be secret: that is in the log. */
const exitOf = ({ _tag }: ToolOutcome, error: string | undefined): Exit.Exit<void, string> =>
  error === undefined ? Exit.void : _tag === "Cancelled" || _tag === "Skipped" ? Exit.interrupt() : Exit.fail(error)
