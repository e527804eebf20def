/**
 * What happens on the whole server, for pages: a bounded log that readers follow from a place
 * in it. Nobody waits for a reader; what a reader was too slow for, or was away for too long,
 * is gone, and it is told to begin anew (`Reset`).
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { LiveItem, LiveSse } from "./ApiQuestions.ts"

/**
 * The log.
 *
 * @category services
 * @since 0.1.0
 */
export class LiveLog extends Context.Service<LiveLog, {
  /** Writes an item that is of a user's; at once, and never waits. */
  readonly tell: (user: string, item: LiveItem) => void
  /** The place behind what is there now. */
  readonly cursor: Effect.Effect<string>
  /**
   * What is behind a place, and then what comes, as far as `sees` lets it: with ids, and a heartbeat each 15
   * seconds. A place that is not known gives a `Reset`, and what comes from now on.
   */
  readonly stream: (
    after: string | undefined,
    sees: (user: string, item: LiveItem) => boolean
  ) => Stream.Stream<LiveSse>
}>()("effect-tool-executor/server/LiveLog") {}
