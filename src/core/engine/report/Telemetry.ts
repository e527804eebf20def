/**
 * Telemetry of calls: metrics, and a span for each wave, call and attempt. Active if the caller has a span, a tracer or
 * a metric registry, or if it is switched on.
 *
 * Without telemetry, a wave and its calls have `undefined` instead, so that it costs nothing.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"
import type { Of, Origin, WaveFact } from "../../facts/Fact.ts"
import { CallTrace } from "./CallTrace.ts"
import { Meters } from "./Meters.ts"
import * as SpanFold from "./SpanFold.ts"
import { Spans } from "./Spans.ts"

/** A call with telemetry. */
export interface Traced {
  readonly call: { readonly id: string; readonly name: string }
  observed: { readonly trace?: CallTrace }
}

/** The telemetry of an executor and its sub-agents. */
export class Telemetry {
  private readonly isForced: boolean
  private readonly hasContent: boolean
  /** Where the last wave was measured; most waves share one registry. */
  private measured: { readonly registry: unknown; readonly labels: unknown; readonly meters: Meters } | undefined

  constructor(mode: "auto" | "on", hasContent: boolean) {
    this.isForced = mode === "on"
    this.hasContent = hasContent
  }

  /** Metrics for work outside of waves, once a wave was measured. */
  get meters(): Meters | undefined {
    return this.measured?.meters
  }

  /** Begins the telemetry of a wave; `undefined` if it is not enabled. */
  begin(context: Context.Context<never>, principal: string, origin: Origin): WaveTrace | undefined {
    const isTraced = (this.isForced || Spans.isWanted(context)) && !Spans.isRefused(context)
    if (!this.isForced && !Spans.isMeasured(context)) return undefined
    return new WaveTrace(context, principal, origin, {
      meters: this.metersOf(context),
      spans: isTraced ? new Spans(context) : undefined,
      hasContent: this.hasContent
    })
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

export class WaveTrace {
  private readonly meters: Meters
  private readonly spans: SpanFold.Wave | undefined
  private readonly clock: Clock.Clock
  /** The caller's context, with the span of the wave. */
  readonly context: Context.Context<never>

  constructor(
    context: Context.Context<never>,
    principal: string,
    origin: Origin,
    observers: { readonly meters: Meters; readonly spans: Spans | undefined; readonly hasContent: boolean }
  ) {
    const { hasContent, meters, spans } = observers
    this.clock = Context.get(context, Clock.Clock)
    this.meters = meters
    this.context = context
    this.spans = undefined
    if (spans === undefined) return
    const span = spans.begin("tool_executor.wave", spans.outer, this.now())
    this.context = Context.add(context, Tracer.ParentSpan, span)
    const agentName = origin.agentPath.at(-1)
    this.spans = { spans, span, context: this.context, principal, agentName, hasContent }
    span.attribute("tool_executor.principal", principal)
    span.attribute("tool_executor.batch", origin.batch)
    span.attribute("tool_executor.process", origin.process)
    span.attribute("tool_executor.wave", origin.wave)
    if (agentName !== undefined) span.attribute("gen_ai.agent.name", agentName)
  }

  /** Begins the telemetry of its calls. Metrics are labelled with names of known tools only. */
  begin(calls: ReadonlyArray<Traced>, tools: ReadonlyMap<string, unknown>): void {
    const { meters, spans } = this
    const now = this.now()
    for (const traced of calls) {
      const { call: { id, name } } = traced
      const isKnown = tools.has(name)
      const own = spans === undefined ? undefined : new SpanFold.CallSpans(spans, id, name, isKnown, now)
      const tool = meters.tool(isKnown ? name : "_OTHER")
      traced.observed = { trace: new CallTrace(this, { all: meters, tool }, own, now) }
    }
  }

  report(fact: WaveFact): void {
    folds[fact._tag](this.meters, this.spans, () => this.now(), fact as never)
  }

  /** The current time in nanoseconds. */
  readonly now = (): bigint => this.clock.currentTimeNanosUnsafe()
}

type Fold<T extends WaveFact["_tag"]> = (
  meters: Meters,
  spans: SpanFold.Wave | undefined,
  now: () => bigint,
  fact: Of<T>
) => void

const folds: { readonly [T in WaveFact["_tag"]]: Fold<T> } = {
  WaveStarted: (meters, spans, _, { calls }) => {
    meters.waiting(calls)
    spans?.span.attribute("tool_executor.calls", calls)
  },
  WaveEnded: (_, spans, now) => {
    if (spans !== undefined) spans.spans.end(spans.span, Exit.void, now())
  }
}
