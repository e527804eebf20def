/**
 * The calls of the sessions that this process holds. Who holds a session has its calls: one that runs in another epoch
 * has no process any more, and one that runs in the current epoch runs here.
 */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Journal from "../core/store/Journal.ts"
import { SessionLost, type SessionRegistry } from "../core/store/SessionRegistry.ts"
import * as Tables from "./JournalTables.ts"
import { own } from "./OwnConnection.ts"

export class SessionCalls {
  private readonly sql: SqlClient.SqlClient
  private readonly registry: SessionRegistry["Service"]
  /** Calls that run in an epoch, or were claimed in it, and have no end on record. */
  private readonly open = new WeakMap<Journal.Term, Set<string>>()

  constructor(sql: SqlClient.SqlClient, registry: SessionRegistry["Service"]) {
    this.sql = sql
    this.registry = registry
  }

  /** The term of what arrives now for a principal: over, where this process does not hold its session. */
  readonly term = (principal: string): Journal.Term => this.registry.current(principal) ?? notHeld

  /** The term that a line needs. Grants and words belong to no call, and are kept in the epoch of their session, too. */
  termOf({ entry, term }: Journal.Line): Journal.Term | undefined {
    return term ?? (entry._tag === "Granted" || entry._tag === "Heard" ? this.term(entry.principal) : undefined)
  }

  /** Notes that lines are on record. */
  written(lines: ReadonlyArray<Journal.Line>): void {
    for (const { entry, term } of lines) {
      if (term === undefined) continue
      if (entry._tag === "Arrived") this.openIn(term).add(entry.key)
      else if (entry._tag === "Settled" || entry._tag === "Suspended") this.openIn(term).delete(entry.key)
    }
  }

  /** Takes over calls of a session. */
  claim(
    keys: ReadonlyArray<string>,
    principal: string
  ): Effect.Effect<Journal.Claimed, SqlError | Journal.JournalError> {
    const epoch = this.registry.current(principal)
    if (epoch === undefined) return lost(principal)
    const open = this.openIn(epoch)
    const busy = keys.filter((it) => open.has(it))
    if (busy.length > 0) return Effect.succeed({ _tag: "Busy", keys: busy })
    // the next claim sees them, though it be asked at the same moment
    for (const it of keys) open.add(it)
    const free = (keys: ReadonlyArray<string>) => keys.forEach((it) => open.delete(it))
    return Effect.flatMap(
      Effect.onError(own(this.sql)(Tables.endedIn(this.sql, epoch, keys)), () => Effect.sync(() => free(keys))),
      (ended) => {
        free(ended ?? keys)
        if (ended !== undefined) return Effect.succeed({ _tag: "Claimed", ended })
        epoch.lose()
        return lost(principal)
      }
    )
  }

  private openIn(term: Journal.Term): Set<string> {
    const open = this.open.get(term) ?? new Set<string>()
    this.open.set(term, open)
    return open
  }
}

const lost = (principal: string) =>
  Effect.fail(new Journal.JournalError({ operation: "claim", cause: new SessionLost({ principal }) }))

/** The term of a session that is not held here. */
const notHeld: Journal.Term = {
  isOver: true,
  isHeld: false,
  renew: Effect.succeed(false),
  onOver: (run) => {
    run()
    return () => {}
  }
}
