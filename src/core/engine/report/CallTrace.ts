/** Telemetry of one call: its metrics, and its spans if it is traced. */
import * as Context from "effect/Context"
import * as Tracer from "effect/Tracer"
import type { CallFact, SpanId } from "../../facts/Fact.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import { CallTimes } from "./CallTimes.ts"
import * as MetricFold from "./MetricFold.ts"
import * as SpanFold from "./SpanFold.ts"

/** The telemetry of a call. */
export class CallTrace {
  private readonly wave: { readonly now: () => bigint; readonly context: Context.Context<never> }
  private readonly times: CallTimes
  private readonly meters: MetricFold.CallMeters
  private readonly spans: SpanFold.CallSpans | undefined

  constructor(
    wave: { readonly now: () => bigint; readonly context: Context.Context<never> },
    meters: MetricFold.CallMeters,
    spans: SpanFold.CallSpans | undefined,
    now: bigint
  ) {
    this.wave = wave
    this.meters = meters
    this.spans = spans
    this.times = new CallTimes(now)
  }

  report(fact: CallFact, tool: RegisteredTool | undefined): void {
    const { meters, spans, times } = this
    const measure = MetricFold.of(fact)
    const trace = spans === undefined ? undefined : SpanFold.of(fact)
    if (measure === undefined && trace === undefined) return
    const now = this.wave.now()
    times.add(fact, now)
    measure?.(meters, times, fact as never)
    trace?.(spans!, now, fact as never, times, tool)
  }

  /** The context of its wave, with the span of the call. */
  get context(): Context.Context<never> {
    const { spans, wave: { context } } = this
    return spans === undefined ? context : Context.add(context, Tracer.ParentSpan, spans.span)
  }

  /** The span of the current attempt, or of the call; `undefined` if it is not traced. */
  get span(): Tracer.Span | undefined {
    return this.spans?.current
  }

  /** The id of the current attempt's span, or of the call's. */
  get current(): SpanId | undefined {
    return this.spans === undefined ? undefined : idOf(this.spans.current)
  }

  /** The id of the call's span. */
  get place(): SpanId | undefined {
    return this.spans === undefined ? undefined : idOf(this.spans.span)
  }
}

const idOf = ({ spanId, traceId }: Tracer.Span): SpanId => ({ traceId, spanId })
