/**
 * An entry of the journal as clients see it, with outcomes as `ToolEvent.Wire` has them.
 *
 * What works for anyone who knows it stays inside: the id of a reservation, and the key under which a service does a
 * thing once. So do spans and the executor's own name, which say nothing to clients.
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as OutcomeWire from "../../core/facts/OutcomeWire.ts"
import * as JournalEntry from "../../core/store/JournalEntry.ts"
import * as Projection from "../../wire/Projection.ts"

const hidden = ["idempotencyKey", "principal", "reservation", "session", "span"] as const

const shown = JournalEntry.JournalEntry.members.map(({ fields }) =>
  Schema.Struct({
    ...Struct.omit(fields as Schema.Struct.Fields, hidden),
    ..."outcome" in fields ? { outcome: OutcomeWire.Whole } : {}
  })
)

/** Gives an entry as clients see it, as plain JSON. */
export const of: (entry: JournalEntry.JournalEntry) => object = Projection.make(Schema.Union(shown))
