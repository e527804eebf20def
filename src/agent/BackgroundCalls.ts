/** The calls of an operation that run in its background, as its tools see them. */
import * as Effect from "effect/Effect"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { Place, TranscriptError } from "./Transcripts.ts"

/** The operation of a sub-agent, as its caller steers it. */
export interface Steered {
  readonly turn: number
  /** Its last text. */
  readonly text: string
  /** Approval of a call is pending. */
  readonly isAsked: boolean
  /** Receives a message of its caller, once for each id; false if it has ended. */
  readonly receives: (text: string, id: string) => Effect.Effect<boolean, TranscriptError>
}

/** A call in the background. */
export interface Entry {
  readonly name: string
  readonly tool: string
  readonly call: string
  readonly process: ToolProcess
  /** `suspended`: the host stops, and the next operation continues it. */
  state: "running" | "suspended" | "ended"
  /** The sub-agent, once it has begun. */
  agent: Steered | undefined
}

/** The calls of one operation that run in its background. */
export class BackgroundCalls {
  private readonly entries = new Map<string, Entry>()
  private readonly waiting = new Set<() => void>()

  get all(): ReadonlyArray<Entry> {
    return Array.from(this.entries.values())
  }

  private in(state: Entry["state"]): ReadonlyArray<Entry> {
    return this.entries.size === 0 ? none : this.all.filter((it) => it.state === state)
  }

  get running(): ReadonlyArray<Entry> {
    return this.in("running")
  }

  get isRunning(): boolean {
    return this.running.length > 0
  }

  /** Ids of the calls that the next operation continues. */
  get suspended(): ReadonlyArray<string> {
    return this.in("suspended").map(({ call }) => call)
  }

  has(name: string): boolean {
    return this.entries.has(name)
  }

  get(name: string): Entry | undefined {
    return this.entries.get(name)
  }

  begins(entry: Entry): void {
    this.entries.set(entry.name, entry)
  }

  becomes(entry: Entry, state: Entry["state"]): void {
    entry.state = state
    this.changed()
  }

  /** The sub-agent that works for a call has begun. */
  joins({ call, process }: Place, agent: Steered): void {
    const entry = this.all.find((it) => it.call === call && it.process.id === process)
    if (entry !== undefined) entry.agent = agent
  }

  /** Something has happened that somebody may wait for. */
  changed(): void {
    for (const look of Array.from(this.waiting)) look()
  }

  /** Waits until something is the case. */
  until(isEnough: () => boolean): Effect.Effect<void> {
    return Effect.suspend(() =>
      isEnough() ? Effect.void : Effect.callback<void>((resume) => {
        const look = () => {
          if (!isEnough()) return
          this.waiting.delete(look)
          resume(Effect.void)
        }
        this.waiting.add(look)
        return Effect.sync(() => void this.waiting.delete(look))
      })
    )
  }

  cancel(reason: string): Effect.Effect<void> {
    return Effect.suspend(() =>
      Effect.forEach(this.running, ({ call, process }) => process.cancelCall(call, reason), { discard: true })
    )
  }
}

const none: ReadonlyArray<never> = []
