/**
 * Live items of other processes, for the pages of this one.
 *
 * What this process tells is written in batches. What others tell is read each second, while somebody follows a page of
 * this process or has just loaded one. Events of a wave arrive as one note that there are some.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { LiveRow, LiveTable, LiveTableError } from "../../core/store/LiveTable.ts"
import { LiveItem } from "../api/ApiApprovals.ts"

/** The log of this process. */
export interface Local {
  readonly add: (user: string, item: LiveItem) => void
  /** Items may be missing: all readers start over. */
  readonly skip: () => void
}

/** What this process shares with others. */
export interface SharedLive {
  readonly tell: (user: string, item: LiveItem) => void
  /** Reads what others tell from now on, for a while. */
  readonly follow: Effect.Effect<void>
  /** Reads what others tell as long as the effect's scope is open. */
  readonly following: Effect.Effect<void, never, Scope.Scope>
}

/** Milliseconds until a batch is written. */
const batchMillis = 250

/** Milliseconds between reads. */
const pollMillis = 1_000

/** Milliseconds that a page has to follow after it loaded its lists. */
const graceMillis = 30_000

/** Items that wait to be written. If there are more, all pages start over. */
const maxWaiting = 2_000

/** Creates it for the rest of the scope. What is not written by then is written then. */
export const make = Effect.fnUntraced(function*(
  table: LiveTable["Service"],
  local: Local
): Effect.fn.Return<SharedLive, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const one = yield* Semaphore.make(1)
  const outbox = new Outbox()
  let isPlanned = false
  let isAway = false
  let readers = 0
  let until = 0
  let position: number | undefined
  let polling: Fiber.Fiber<void> | undefined

  const answered = Effect.sync(() => {
    isAway = false
  })
  /** Warns once, until the table answers again. */
  const failed = (error: LiveTableError) =>
    Effect.suspend(() => {
      const isNew = !isAway
      isAway = true
      return isNew ? Effect.logWarning(error.message, error) : Effect.void
    })
  const flush: Effect.Effect<void> = Effect.suspend(() => {
    isPlanned = false
    const rows = outbox.take()
    if (rows.length === 0) return Effect.void
    return Effect.matchEffect(table.append(rows), {
      onSuccess: () => answered,
      onFailure: (error) => {
        outbox.lose()
        plan()
        return failed(error)
      }
    })
  })
  const plan = () => {
    if (isPlanned) return
    isPlanned = true
    run(Effect.andThen(Effect.sleep(batchMillis), one.withPermits(1)(flush)))
  }

  /** Reads once. Whoever follows while the table does not answer starts over when it does. */
  const read: Effect.Effect<void> = Effect.suspend((): Effect.Effect<void, LiveTableError> => {
    if (position === undefined) {
      return Effect.map(table.end, (end) => {
        position = end
        local.skip()
      })
    }
    return Effect.map(table.read(position), ({ end, isComplete, rows }) => {
      position = end
      if (!isComplete) return local.skip()
      for (const row of rows) receive(local, row)
    })
  }).pipe(Effect.andThen(answered), Effect.catch(failed))
  const poll: Effect.Effect<void> = Effect.suspend(() => {
    if (readers === 0 && clock.currentTimeMillisUnsafe() > until) {
      polling = undefined
      position = undefined
      return Effect.void
    }
    return Effect.sleep(pollMillis).pipe(Effect.andThen(read), Effect.andThen(poll))
  })
  const follow = one.withPermits(1)(Effect.suspend(() => {
    until = clock.currentTimeMillisUnsafe() + graceMillis
    if (polling !== undefined) return Effect.void
    return Effect.map(read, () => {
      polling = run(poll)
    })
  }))

  yield* Effect.addFinalizer(() => Effect.andThen(Effect.sync(() => polling?.interruptUnsafe()), flush))
  return {
    tell: (user, item) => {
      outbox.add(user, item)
      plan()
    },
    follow,
    following: Effect.acquireRelease(
      Effect.tap(follow, () => Effect.sync(() => readers++)),
      () =>
        Effect.sync(() => {
          readers--
          until = clock.currentTimeMillisUnsafe() + graceMillis
        })
    )
  }
})

/** What waits to be written. Of what replaces something, only the latest. */
class Outbox {
  private readonly items = new Map<string, { readonly user: string; readonly item: LiveItem }>()
  private serial = 0

  add(user: string, item: LiveItem): void {
    const [key, shared] = this.shared(item)
    // behind what was told before it
    this.items.delete(key)
    this.items.set(key, { user, item: shared })
    if (this.items.size > maxWaiting) this.lose()
  }

  take(): ReadonlyArray<LiveRow> {
    const rows = Array.from(this.items.values(), ({ item, user }) => ({ user, item: JSON.stringify(item) }))
    this.items.clear()
    return rows
  }

  /** Items are lost: all readers start over. */
  lose(): void {
    this.items.clear()
    this.items.set("reset", { user: "", item: { _tag: "Reset" } })
  }

  private shared(item: LiveItem): readonly [key: string, shared: LiveItem] {
    switch (item._tag) {
      case "WaveEvent":
      case "WaveEventLeftOut": {
        const { session, user, wave } = item
        return [JSON.stringify(["wave", user, session, wave]), { _tag: "WaveEventLeftOut", user, session, wave }]
      }
      case "ConversationChanged": {
        const { session, user } = item.conversation
        return [JSON.stringify(["conversation", user, session]), item]
      }
      default:
        return [`${this.serial++}`, item]
    }
  }
}

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(LiveItem))

/** Takes an item of another process; one of a newer version may be unknown. */
const receive = (local: Local, { item, user }: LiveRow): void => {
  const read = Option.getOrUndefined(decode(item))
  if (read?._tag === "Reset") local.skip()
  else if (read !== undefined) local.add(user, read)
}
