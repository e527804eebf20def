/**
 * What happened in a run, as everybody saw it who took part: callers, handlers, people
 * and observers.
 *
 * @since 0.1.0
 */
import type { ToolEvent } from "../../../src/core/facts/ToolEvent.ts"
import type { ToolCall } from "../../../src/core/vocabulary/ToolCall.ts"
import type { ToolMessage, ToolOutcome } from "../../../src/core/vocabulary/ToolOutcome.ts"
import type { Params, World } from "./LawRun.ts"

/**
 * A moment: its virtual milliseconds, and its place among all moments that the kit saw
 * itself.
 *
 * @category models
 * @since 0.1.0
 */
export interface Moment {
  readonly at: number
  readonly order: number | undefined
}

/**
 * A handler that ran.
 *
 * @category models
 * @since 0.1.0
 */
export interface Start {
  readonly callId: string
  readonly tool: string
  readonly params: Params
  readonly agentPath: ReadonlyArray<string>
  readonly process: string | undefined
  readonly batch: string | undefined
  readonly begin: Moment
  end: Moment | undefined
  /** When its writes began. */
  readonly commits: Array<Moment>
}

/**
 * A wave as its caller saw it.
 *
 * @category models
 * @since 0.1.0
 */
export interface WaveSeen {
  readonly process: string
  readonly batch: string
  readonly agentPath: ReadonlyArray<string>
  readonly calls: ReadonlyArray<ToolCall>
  readonly begin: Moment
  outcomes: ReadonlyArray<ToolOutcome> | undefined
  toolMessages: ReadonlyArray<ToolMessage> | undefined
  /** When its caller was interrupted, and that had come to its end. */
  interrupted: Moment | undefined
  /** What observers of its process saw of it. */
  events: ReadonlyArray<ToolEvent>
}

/**
 * What a person was asked, and what they said.
 *
 * @category models
 * @since 0.1.0
 */
export interface Asked {
  readonly callId: string
  readonly agentPath: ReadonlyArray<string>
  readonly tool: string
  readonly target: string | undefined
  readonly asked: Moment
  answered: { readonly moment: Moment; readonly how: NonNullable<Params["answer"]> } | undefined
  /** It was answered, withdrawn, or its time was over. */
  hasEnded: boolean
}

/**
 * Everything that happened.
 *
 * @category models
 * @since 0.1.0
 */
export interface History {
  readonly world: World
  /** Parts of the kit that the executor asked: what it does not ask it brings itself. */
  readonly used: ReadonlySet<string>
  /** The tools' classes and caps, as they were declared. */
  readonly tools: ReadonlyMap<string, { readonly class: string; readonly cap: number | undefined }>
  readonly waves: ReadonlyArray<WaveSeen>
  readonly starts: ReadonlyArray<Start>
  readonly asked: ReadonlyArray<Asked>
  readonly revoked: ReadonlyArray<{ readonly tool: string; readonly moment: Moment }>
  /** Processes that were cancelled. */
  readonly cancelled: ReadonlyArray<{ readonly process: string; readonly moment: Moment }>
  /** What forks may not do, by their names. */
  readonly forbidden: ReadonlyMap<string, NonNullable<Params["forbids"]>>
  /** Once nobody waits for anything: the handlers that run still, and those that the executor knows of. */
  readonly orphans: { readonly running: ReadonlyArray<string>; readonly known: ReadonlyArray<string> }
  /** Waves of as many calls as there is room for, once everything was over. */
  readonly probes: ReadonlyArray<
    {
      readonly what: string
      readonly took: number
      readonly expected: number
      readonly tags: ReadonlyArray<string>
    }
  >
  /** Why the run did not come to its end. */
  readonly stuck: string | undefined
}
