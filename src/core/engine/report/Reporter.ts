/**
 * The events of one wave, for whoever reads: each says whose it is and which number it
 * has in its wave.
 *
 * @since 0.1.0
 */
import type { ToolEvent } from "../../facts/ToolEvent.ts"
import type { EventHub } from "./EventHub.ts"

/**
 * Where the events of a wave come from.
 *
 * @category models
 * @since 0.1.0
 */
export interface Origin {
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
  readonly wave: number
}

/**
 * An event without what it takes from its wave.
 *
 * @category models
 * @since 0.1.0
 */
export type Body = ToolEvent extends infer E ? E extends ToolEvent ? Omit<E, keyof Origin | "sequence"> : never : never

/**
 * The events of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class WaveEvents {
  /** Who is told. */
  readonly hub: EventHub
  readonly origin: Origin
  private readonly secrets: { readonly without: (body: Body) => Body }
  private last = 0
  /** What is told once the wave goes on; `undefined`: everything is told at once. */
  private held: Array<ToolEvent> | undefined

  constructor(hub: EventHub, origin: Origin, secrets: { readonly without: (body: Body) => Body }) {
    this.hub = hub
    this.origin = origin
    this.secrets = secrets
  }

  /** Whether anybody reads: only then events need to be made. */
  get isObserved(): boolean {
    return this.hub.isObserved
  }

  /** Whether anybody wants what tools report. */
  get takesReports(): boolean {
    return this.hub.takesReports
  }

  /** Tells what happened to a call or the wave. */
  publish(body: Body): void {
    if (!this.isObserved) return
    const event = this.stamped(body)
    if (this.held === undefined) this.hub.publish(event)
    else this.held.push(event)
  }

  /** Tells nothing until it is known whether the wave goes on. */
  hold(): void {
    this.held ??= []
  }

  /** The wave goes on: what was held back is told. */
  release(): void {
    const { held = [] } = this
    this.held = undefined
    for (const event of held) this.hub.publish(event)
  }

  /** Tells what a tool reported; gives how many readers had no room for it. */
  report(body: Body): number {
    return this.takesReports ? this.hub.report(this.stamped(body)) : 0
  }

  private stamped(body: Body): ToolEvent {
    return { ...this.secrets.without(body), ...this.origin, sequence: ++this.last } as ToolEvent
  }
}
