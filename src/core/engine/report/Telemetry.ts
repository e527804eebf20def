/**
 * What an operator sees of calls: a span for each wave, for each of its calls and for
 * each attempt, and metrics, wherever the caller has a span or a tracer of its own.
 *
 * Where nobody asked there is nothing of it: a wave and its calls have `undefined`
 * instead.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"
import { CallTrace, type Traced, type Wave } from "./CallTrace.ts"
import { Meters } from "./Meters.ts"
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
  private readonly hasContent: boolean
  /** Where the last wave was measured: most of them have the same registry. */
  private measured: { readonly registry: unknown; readonly labels: unknown; readonly meters: Meters } | undefined

  constructor(mode: "auto" | "on", hasContent: boolean) {
    this.isForced = mode === "on"
    this.hasContent = hasContent
  }

  /** Metrics of what is done for no wave, once one was measured. */
  get meters(): Meters | undefined {
    return this.measured?.meters
  }

  /** Begins the telemetry of a wave; `undefined` where nobody asked for any. */
  begin(context: Context.Context<never>, principal: string, about: About): WaveTrace | undefined {
    const isTraced = (this.isForced || Spans.isWanted(context)) && !Spans.isRefused(context)
    if (!this.isForced && !Spans.isMeasured(context)) return undefined
    const clock = Context.get(context, Clock.Clock)
    const spans = isTraced ? new Spans(context) : undefined
    return new WaveTrace(context, clock, principal, about, this.metersOf(context), spans, this.hasContent)
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
export class WaveTrace implements Wave {
  readonly meters: Meters
  readonly spans: Spans | undefined
  readonly principal: string
  readonly agentName: string | undefined
  readonly span: Tracer.Span | undefined
  /** Spans have arguments and results. */
  readonly hasContent: boolean
  /** As the caller has it, with the span of the wave. */
  readonly context: Context.Context<never>
  private readonly clock: Clock.Clock

  constructor(
    context: Context.Context<never>,
    clock: Clock.Clock,
    principal: string,
    about: About,
    meters: Meters,
    spans: Spans | undefined,
    hasContent: boolean
  ) {
    this.hasContent = hasContent
    this.clock = clock
    this.principal = principal
    this.agentName = about.agentPath.at(-1)
    this.meters = meters
    this.spans = spans
    const span = this.span = spans?.begin("tool_executor.wave", spans.outer, this.now())
    this.context = span === undefined ? context : Context.add(context, Tracer.ParentSpan, span)
    if (span === undefined) return
    span.attribute("tool_executor.principal", principal)
    span.attribute("tool_executor.batch", about.batch)
    span.attribute("tool_executor.process", about.process)
    span.attribute("tool_executor.wave", about.wave)
    if (this.agentName !== undefined) span.attribute("gen_ai.agent.name", this.agentName)
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

  /** Nanoseconds. */
  now(): bigint {
    return this.clock.currentTimeNanosUnsafe()
  }
}
