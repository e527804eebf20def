/** Makes spans with a caller's tracer, parent span and span annotations. These are looked up once per wave. */
import * as Context from "effect/Context"
import type * as Exit from "effect/Exit"
import * as LogLevel from "effect/LogLevel"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"

/** Makes the spans of a wave. */
export class Spans {
  private readonly tracer: Tracer.Tracer
  private readonly isTimed: boolean
  private readonly isSampled: boolean
  private readonly links: ReadonlyArray<Tracer.SpanLink>
  private readonly attributes: ReadonlyArray<readonly [string, unknown]>
  /** The caller's span. */
  readonly outer: Tracer.AnySpan | undefined

  constructor(context: Context.Context<never>) {
    this.tracer = Context.get(context, Tracer.Tracer)
    this.isTimed = Context.get(context, References.TracerTimingEnabled)
    this.isSampled = !LogLevel.isGreaterThan(
      Context.get(context, Tracer.MinimumTraceLevel),
      Context.get(context, Tracer.CurrentTraceLevel)
    )
    this.links = Context.get(context, References.TracerSpanLinks)
    this.attributes = Object.entries(Context.get(context, References.TracerSpanAnnotations))
    this.outer = propagated(Context.getOrUndefined(context, Tracer.ParentSpan))
  }

  /** Whether a caller has a span or a tracer. */
  static isWanted(context: Context.Context<never>): boolean {
    return Context.getOrUndefined(context, Tracer.ParentSpan) !== undefined ||
      Context.getOrUndefined(context, Tracer.Tracer) !== undefined
  }

  /** Whether a caller has a metric registry, or spans. */
  static isMeasured(context: Context.Context<never>): boolean {
    return Context.getOrUndefined(context, Metric.MetricRegistry) !== undefined ||
      (Spans.isWanted(context) && !Spans.isRefused(context))
  }

  /** Whether tracing is disabled. */
  static isRefused(context: Context.Context<never>): boolean {
    return !Context.get(context, References.TracerEnabled)
  }

  /** Begins a span; times are nanoseconds. */
  begin(
    name: string,
    parent: Tracer.AnySpan | undefined,
    now: bigint,
    kind: Tracer.SpanKind = "internal"
  ): Tracer.Span {
    const span = this.tracer.span({
      name,
      parent: Option.fromUndefinedOr(parent),
      annotations: Context.empty(),
      links: this.links.slice(),
      startTime: this.isTimed ? now : 0n,
      kind,
      root: parent === undefined,
      sampled: parent?.sampled === false ? false : this.isSampled
    })
    for (const [key, value] of this.attributes) span.attribute(key, value)
    return span
  }

  end(span: Tracer.Span, exit: Exit.Exit<unknown, unknown>, now: bigint): void {
    span.end(this.isTimed ? now : 0n, exit)
  }
}

/** The nearest span that is included in traces. */
const propagated = (span: Tracer.AnySpan | undefined): Tracer.AnySpan | undefined =>
  span === undefined || !Context.get(span.annotations, Tracer.DisablePropagation)
    ? span
    : span._tag === "Span"
    ? propagated(Option.getOrUndefined(span.parent))
    : undefined
