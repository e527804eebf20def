/**
 * The metrics of an executor, in the registry of a caller. Labels are names of known tools and words of this package:
 * never an id, never a principal.
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"

/** Labels of a metric. */
export type Labels = Readonly<Record<string, string>>

/** The metrics of one tool. */
export class ToolMeters {
  private readonly context: Context.Context<never>
  private readonly tool: Labels
  private readonly attempts: Metric.Counter<number>
  private readonly active: Metric.Gauge<number>
  private readonly orphans: Metric.Gauge<number>
  private readonly queue: Metric.Histogram<number>
  private readonly durations = new Made<Metric.Histogram<number>>()
  private readonly outcomes = new Made<Metric.Counter<number>>()

  constructor(context: Context.Context<never>, name: string) {
    this.context = context
    this.tool = { "gen_ai.tool.name": name }
    this.attempts = counter("tool_executor.attempt", "Handlers that were started", this.tool)
    this.active = gauge("tool_executor.active", "Handlers that run", this.tool)
    this.orphans = gauge("tool_executor.orphans", "Handlers that still run although their call has ended", this.tool)
    this.queue = seconds(
      "tool_executor.queue.duration",
      "Time from a call's arrival to its start, without the time of approval requests",
      this.tool
    )
  }

  attempt(): void {
    this.attempts.updateUnsafe(1, this.context)
  }

  running(more: number): void {
    this.active.modifyUnsafe(more, this.context)
  }

  orphaned(more: number): void {
    this.orphans.modifyUnsafe(more, this.context)
  }

  queued(duration: number): void {
    this.queue.updateUnsafe(duration, this.context)
  }

  /** Records the end of an attempt; `error` is the reason if it did not succeed. */
  executed(duration: number, error: string | undefined): void {
    this.durations.of(error ?? "", () => {
      const labels = { ...this.tool, "gen_ai.tool.type": "function", ...errorLabel(error) }
      return seconds("gen_ai.execute_tool.duration", "The duration of a single tool execution.", labels)
    }).updateUnsafe(duration, this.context)
  }

  /** Records the outcome of a call. */
  outcome(tag: string, error: string | undefined): void {
    // the error identifies the pair: a refusal implies `Denied`, and any other error is the tag itself
    this.outcomes.of(error ?? tag, () => {
      const labels = { ...this.tool, "tool_executor.outcome": tag, ...errorLabel(error) }
      return counter("tool_executor.outcome", "Calls that have their outcome", labels)
    }).updateUnsafe(1, this.context)
  }
}

/** The metrics of an executor: tools, calls, approval requests and stores. */
export class Meters {
  private readonly context: Context.Context<never>
  private readonly tools = new Made<ToolMeters>()
  private readonly stores = new Made<Metric.Histogram<number>>()
  private readonly shadows = new Made<Metric.Counter<number>>()
  private readonly reviews = new Made<Metric.Histogram<number>>()
  private readonly waits = gauge("tool_executor.waiting", "Calls that have neither started nor ended", {})
  private readonly open = gauge("tool_executor.approvals.pending", "Approval requests that are pending", {})

  constructor(context: Context.Context<never>) {
    this.context = context
  }

  tool(name: string): ToolMeters {
    return this.tools.of(name, () => new ToolMeters(this.context, name))
  }

  waiting(more: number): void {
    this.waits.modifyUnsafe(more, this.context)
  }

  questions(more: number): void {
    this.open.modifyUnsafe(more, this.context)
  }

  /** Counts a decision of a shadow policy. */
  shadow(policy: string, would: string, decided: string): void {
    this.shadows.of(
      `${policy} ${would} ${decided}`,
      () =>
        counter("tool_executor.shadow.decision", "Calls that a shadow policy was looked at for", {
          "tool_executor.shadow.policy": policy,
          "tool_executor.shadow.would": would,
          "tool_executor.shadow.decided": decided
        })
    ).updateUnsafe(1, this.context)
  }

  /** Records a verdict of the reviewer, or why there was none. */
  review(verdict: string, decides: boolean, problem: string | undefined, duration: number): void {
    this.reviews.of(
      `${verdict} ${decides} ${problem}`,
      () =>
        seconds("tool_executor.review.duration", "Time that a reviewer took for a call", {
          "tool_executor.review.verdict": verdict,
          "tool_executor.review.decides": String(decides),
          ...errorLabel(problem)
        })
    ).updateUnsafe(duration, this.context)
  }

  /** Records an answer or a failure of the state store. */
  store(operation: string, duration: number, hasFailed: boolean): void {
    this.stores.of(hasFailed ? `${operation}!` : operation, () => {
      const labels = { "tool_executor.store.operation": operation, ...errorLabel(hasFailed ? failed : undefined) }
      return seconds("tool_executor.store.duration", "Time that the state store took to answer", labels)
    }).updateUnsafe(duration, this.context)
  }
}

/** What is made when it is first asked for, by its key. */
class Made<A> {
  private readonly all = new Map<string, A>()

  of(key: string, make: () => A): A {
    let found = this.all.get(key)
    if (found === undefined) this.all.set(key, found = make())
    return found
  }
}

const failed = "StoreUnavailable"

/** In seconds, from immediate answers to several minutes. */
const boundaries = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

const errorLabel = (error: string | undefined): Labels => error === undefined ? {} : { "error.type": error }

const counter = (name: string, description: string, attributes: Labels): Metric.Counter<number> =>
  Metric.counter(name, { description, attributes, incremental: true })

const gauge = (name: string, description: string, attributes: Labels): Metric.Gauge<number> =>
  Metric.gauge(name, { description, attributes })

const seconds = (name: string, description: string, attributes: Labels): Metric.Histogram<number> =>
  // exporters read the unit from this label
  Metric.histogram(name, { description, attributes: { ...attributes, unit: "s" }, boundaries })
